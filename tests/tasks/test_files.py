"""Every way in which a user's files can be wrong has a message that says where and what to do."""

import gzip
import hashlib
import json
import lzma
from pathlib import Path

import pytest

from formwright.errors import InputError, UnknownName
from formwright.tasks import load_task, task_names
from formwright.tasks.files import deal, find_splits

ROWS = "text,label\n" + "".join(f"text {n} {'abc'[n % 3]},{'xyz'[n % 3]}\n" for n in range(60))


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("suffix", "content", "message"),
    [
        ("csv", "text,label\na,x\n,y\n", "row 2 of f.csv has no text"),
        ("csv", "text,label\na,x\nb,\n", "row 2 of f.csv has no label"),
        ("csv", "text,label\na,x\nb,y,z\n", "row 2 of f.csv has 3 cells"),
        ("csv", "text,stuff\na,x\nb,y\n", "there is no column 'label' in f.csv; the file has text"),
        ("csv", "a,b\nc,d\ne,f\n", "the first line of f.csv is 'a,b', which names no column for"),
        ("csv", "a\nc\ne\n", "'a', in which no comma, semicolon, tab or bar separates cells"),
        ("csv", 'text,label\n"a,x\n', "not proper csv"),
        ("csv", "text,label\n", "has a header and no rows"),
        ("csv", "", "is empty"),
        ("csv", "text,label\na,x\nb,x\nc,x\n", "have the label 'x'; nothing to learn"),
        ("jsonl", '{"text": "a", "label": 1}\nnot json\n', "line 2 of f.jsonl is not JSON"),
        ("jsonl", '{"text": "a", "label": 1}\n[1]\n', "line 2 of f.jsonl is not an object"),
        ("jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', "row 2 of f.jsonl has no label"),
        ("jsonl", '{"text": null, "label": 1}\n', "row 1 of f.jsonl has no text"),
        ("json", '{"a": 1}', "list of objects"),
        ("json", "[" * 100_000, "is not JSON"),
        ("parquet", "x" * 50, "is damaged or not parquet"),
        ("xlsx", "x", "is not csv, tsv, jsonl, json or parquet"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, suffix: str, content: str, message: str) -> None:
    (tmp_path / f"f.{suffix}").write_text(content)
    with pytest.raises(InputError) as caught:
        load_task(f"classify:{tmp_path}/f.{suffix}")
    assert message in str(caught.value)


def test_too_many_labels_are_no_labels(tmp_path: Path) -> None:
    rows = "".join(f"t{n},{n}\n" for n in range(200))
    (tmp_path / "f.csv").write_text("text,label\n" + rows)
    with pytest.raises(InputError, match="200 different values in 200 rows"):
        load_task(f"classify:{tmp_path}/f.csv")


def test_a_label_that_training_never_shows_is_named(tmp_path: Path) -> None:
    write(tmp_path, train_csv=ROWS, valid_csv="text,label\na,x\nb,q\n")
    with pytest.raises(InputError, match=r"row 2 of valid.csv has the label 'q', which training"):
        load_task(f"classify:{tmp_path}")


def test_empty_rows_can_be_left_out(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(ROWS + ",x\nmore,\n")
    task = load_task(f"classify:{tmp_path}/f.csv?empty=skip")
    assert sum(task.describe()["rows"].values()) == 60


def test_wrong_encodings_are_named_by_byte_and_line(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"text,label\ngood,x\ncaf\xe9,y\n")
    with pytest.raises(InputError, match=r"f.csv: byte 21 \(line 3\) is not UTF-8"):
        load_task(f"classify:{tmp_path}/f.csv")


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes(b"\xef\xbb\xbf" + ROWS.replace("\n", "\r\n").encode())
    task = load_task(f"classify:{tmp_path}/f.csv")
    assert set(task.describe()["labels"]) == {"x", "y", "z"}


def test_packed_files_are_read_and_damaged_ones_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(ROWS.encode()))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(ROWS.encode()))
    plain = load_task(f"classify:{tmp_path}/a.csv.xz").describe()
    assert plain["rows"] == load_task(f"classify:{tmp_path}/a.csv.gz").describe()["rows"]
    for name in ("a.csv.xz", "a.csv.gz"):
        whole = (tmp_path / name).read_bytes()
        for broken in (whole[: len(whole) // 2], b"garbage" + whole):
            (tmp_path / name).write_bytes(broken)
            with pytest.raises(InputError, match="is damaged or not"):
                load_task(f"classify:{tmp_path}/{name}")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    for kind in ("classify", "match", "tag", "lm", "mlm", "span"):
        with pytest.raises(InputError, match="does not exist"):
            load_task(f"{kind}:{tmp_path}/nothing")
        with pytest.raises(InputError, match="holds no file"):
            load_task(f"{kind}:{tmp_path}")


def test_a_folder_without_training_data_says_what_it_holds(tmp_path: Path) -> None:
    write(tmp_path, test_csv=ROWS, dev_csv=ROWS)
    with pytest.raises(InputError, match=r"no training data: it holds dev.csv, test.csv"):
        load_task(f"classify:{tmp_path}")


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    loop = tmp_path / "train.csv"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match=r"does not exist|holds no file"):
        load_task(f"classify:{tmp_path}")


def test_splits_are_found_in_folders_and_beside_the_training_file(tmp_path: Path) -> None:
    write(tmp_path, my_train_csv=ROWS, my_dev_csv=ROWS, my_test_csv=ROWS, other_test_csv=ROWS)
    found = find_splits(tmp_path / "my_train.csv", (".csv",)).paths
    assert {split: path.name for split, path in found.items()} == {
        "train": "my_train.csv",
        "valid": "my_dev.csv",
        "test": "my_test.csv",
    }
    with pytest.raises(InputError, match=r"my_test.csv and other_test.csv could both be the test"):
        find_splits(tmp_path, (".csv",))


def test_given_splits_win(tmp_path: Path) -> None:
    write(tmp_path, train_csv=ROWS, valid_csv=ROWS, mine_csv="text,label\na,x\nb,y\n")
    task = load_task(f"classify:{tmp_path}", valid=str(tmp_path / "mine.csv"))
    assert task.describe()["rows"] == {"train": 60, "valid": 2}
    with pytest.raises(InputError, match="has no test split"):
        list(task.batches("test", batch_tokens=100))
    with pytest.raises(InputError, match="'valid' or 'test'"):
        list(task.batches("train", batch_tokens=100))


def test_one_file_is_split_by_the_content_of_its_rows() -> None:
    rows = [f"row {n}" for n in range(2000)]
    shares = {"valid": 5, "test": 5}
    before = dict(zip(rows, deal(rows, str, shares), strict=True))
    for row, split in before.items():
        mark = int(hashlib.sha256(row.encode()).hexdigest()[:16], 16) / 2**64
        assert split == ("valid" if mark < 0.05 else "test" if mark < 0.10 else "train")
    counts = [list(before.values()).count(split) for split in ("train", "valid", "test")]
    assert 1740 < counts[0] < 1860
    assert all(60 < count < 140 for count in counts[1:])
    more = [*(f"new {n}" for n in range(500)), *reversed(rows)]
    after = dict(zip(more, deal(more, str, shares), strict=True))
    assert all(after[row] == before[row] for row in rows)


def test_few_rows_still_fill_every_split() -> None:
    for count in range(3, 30):
        dealt = deal([f"r{n}" for n in range(count)], str, {"valid": 5, "test": 5})
        assert set(dealt) == {"train", "valid", "test"}
    with pytest.raises(InputError, match="2 rows are too few"):
        deal(["a", "b"], str, {"valid": 5, "test": 5})


def test_columns_are_named_or_counted(tmp_path: Path) -> None:
    body = ROWS.partition("\n")[2]
    (tmp_path / "plain.csv").write_text(body)
    (tmp_path / "named.csv").write_text(
        "stars,body\n"
        + "".join(f"{b},{a}\n" for a, b in (line.split(",") for line in body.splitlines()))
    )
    counted = load_task(f"classify:{tmp_path}/plain.csv?text=1&label=2").describe()
    named = load_task(f"classify:{tmp_path}/named.csv?text=body&label=stars").describe()
    python = load_task(
        f"classify:{tmp_path}/named.csv", text_column="body", label_column="stars"
    ).describe()
    assert counted["labels"] == named["labels"] == python["labels"]
    with pytest.raises(InputError, match=r"there is no column 'sta' in named.csv; the file has"):
        load_task(f"classify:{tmp_path}/named.csv?text=body&label=sta")


def test_folders_of_folders_are_labels(tmp_path: Path) -> None:
    for split, count in (("train", 6), ("test", 2)):
        for label in ("neg", "pos"):
            (tmp_path / "imdb" / split / label).mkdir(parents=True)
            for n in range(count):
                text = f"{label} text {n}"
                (tmp_path / "imdb" / split / label / f"{n}.txt").write_text(text)
    told = load_task(f"classify:{tmp_path}/imdb").describe()
    assert told["rows"]["test"] == 4
    assert told["rows"]["train"] + told["rows"]["valid"] == 12
    assert set(told["labels"]) == {"neg", "pos"}
    alone = load_task(f"classify:{tmp_path}/imdb/train").describe()
    assert sum(alone["rows"].values()) == 12
    assert "90/5/5" in alone["split"]
    (tmp_path / "imdb" / "train" / "pos" / "3.txt").write_text("")
    with pytest.raises(InputError, match=r"pos/3.txt has no text"):
        load_task(f"classify:{tmp_path}/imdb")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.conll", "word\n", "line 1 of f.conll has 1 columns"),
        ("f.conll", "\n\n \n", "is empty"),
        ("f.conllu", "# text = a\n\n# more\n", "holds no sentences"),
        ("f.conllu", "1\ta\ta\n", "has 3 columns"),
        ("f.conllu", "1\ta\ta\t\tX\n", "line 1 of f.conllu has no tag"),
    ],
)
def test_bad_tag_files_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        load_task(f"tag:{tmp_path}/{name}")
    assert message in str(caught.value)


def test_a_tag_that_training_never_shows_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.conll").write_text("a X\nb Y\n\nc X\n")
    (tmp_path / "valid.conll").write_text("a X\n\nb Z\n")
    with pytest.raises(InputError, match=r"line 3 of valid.conll has the tag 'Z'"):
        load_task(f"tag:{tmp_path}")


def test_treebanks_leave_contractions_and_remarks_out(tmp_path: Path) -> None:
    line = "{}\t{}\t_\t{}\tX\t_\t0\troot\t_\t_\n"
    one = "# text = don't go\n" + line.format("1-2", "don't", "_") + line.format(1, "do", "AUX")
    one += line.format(2, "n't", "PART") + line.format("2.1", "ghost", "NOUN")
    (tmp_path / "f.conllu").write_text(
        "\n".join([one + line.format(3, f"go{n}", "VERB") for n in range(20)]) + "\n"
    )
    told = load_task(f"tag:{tmp_path}/f.conllu").describe()
    assert set(told["labels"]) == {"AUX", "PART", "VERB"}
    assert told["lengths"]["max"] == 3
    with pytest.raises(InputError, match="no column 'POSS'"):
        load_task(f"tag:{tmp_path}/f.conllu?column=POSS")


def test_translations_must_agree_line_by_line(tmp_path: Path) -> None:
    write(tmp_path, a_en="one\ntwo\n", a_de="eins\n", b_de="eins\n\n")
    with pytest.raises(InputError, match=r"a.en has 2 lines and a.de 1"):
        load_task(f"translate:{tmp_path}/a.en,{tmp_path}/a.de")
    with pytest.raises(InputError, match=r"row 2 of b\.de has no text"):
        load_task(f"translate:{tmp_path}/a.en,{tmp_path}/b.de")
    with pytest.raises(InputError, match="Two files are needed"):
        load_task(f"translate:{tmp_path}/a.en")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "q?", "answers": {"text": ["a"]}}, "row 1 of f.jsonl has no context"),
        ({"context": "c", "answers": {"text": ["a"]}}, "row 1 of f.jsonl has no question"),
        ({"context": "c", "question": "q?"}, "row 1 of f.jsonl has no answers"),
        ({"context": "c", "question": "q?", "answers": ["zz"]}, "does not stand in its context"),
        ({"context": "c", "question": "q?", "answer": " "}, "row 1 of f.jsonl has an empty answer"),
    ],
)
def test_bad_questions_are_named(tmp_path: Path, row: dict[str, object], message: str) -> None:
    (tmp_path / "f.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError) as caught:
        load_task(f"span:{tmp_path}/f.jsonl")
    assert message in str(caught.value)


def test_tasks_and_options_that_do_not_exist_get_a_suggestion(data: Path) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'listops'"):
        load_task("listop")
    with pytest.raises(InputError, match=r"no option 'max_lenght'\. Did you mean 'max_length'"):
        load_task("listops-tiny?max_lenght=30")
    with pytest.raises(InputError, match="should be a whole number, not 'ten'"):
        load_task("listops-tiny?train=ten")
    with pytest.raises(InputError, match="is true or false"):
        load_task("listops-tiny?operator_root=maybe")
    with pytest.raises(InputError, match="written classify:PATH"):
        load_task("classify")
    with pytest.raises(InputError, match="takes no path"):
        load_task("listops:file")
    with pytest.raises(InputError, match="cannot be measured by 'bleu'"):
        load_task(f"classify:{data}/reviews.csv?text=body&label=stars&metric=bleu")
    with pytest.raises(InputError, match="pool is one of"):
        load_task(f"classify:{data}/reviews.csv?text=body&label=stars&pool=max")
    with pytest.raises(InputError, match="at least 1"):
        load_task("copy").sampler(batch_tokens=0, seed=0)


def test_every_task_is_listed_with_a_line_about_it() -> None:
    names = dict(task_names())
    assert {"listops", "listops-tiny", "stdlib", "copy", "reverse", "pairs"} <= set(names)
    assert {"lm:PATH", "mlm:PATH", "classify:PATH", "match:PATH", "tag:PATH"} <= set(names)
    assert {"translate:SRC,TGT", "span:PATH", "hf:NAME[/CONFIG]"} <= set(names)
    assert all(10 < len(text) < 80 for text in names.values())


def test_the_same_bytes_under_another_kind_of_name_are_read_anew(tmp_path: Path) -> None:
    text = "text\tlabel\n" + "".join(f'"a {n}\t{n % 2}\n' for n in range(30))
    (tmp_path / "f.tsv").write_text(text)
    (tmp_path / "f.csv").write_text(text)
    load_task(f"classify:{tmp_path}/f.tsv")
    with pytest.raises(InputError, match="csv"):
        load_task(f"classify:{tmp_path}/f.csv")


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text(ROWS)
    before = sum(load_task(f"classify:{path}").describe()["rows"].values())
    path.write_text(ROWS + "one more,x\n")
    assert sum(load_task(f"classify:{path}").describe()["rows"].values()) == before + 1
