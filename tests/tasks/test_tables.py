"""The user's tables: whatever separates their cells and whatever format they come in."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from formwright.errors import InputError
from formwright.tasks import load_task
from formwright.tasks.tables import read_table

ROWS = [{"text": f"good, or; bad | {n}", "label": "xyz"[n % 3]} for n in range(60)]
NAMES = {",": "commas", ";": "semicolons", "|": "vertical bars", "\t": "tabs"}


def cells(separator: str, header: str = "text{}label") -> str:
    lines = [header.format(separator)] if header else []
    return "\n".join([*lines, *(f'"{r["text"]}"{separator}{r["label"]}' for r in ROWS)]) + "\n"


def told(path: Path, options: str = "", kind: str = "classify") -> dict[str, Any]:
    return load_task(f"{kind}:{path}{options}").describe()


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
def test_any_usual_separator_is_understood_and_an_unusual_one_is_said(
    tmp_path: Path, separator: str
) -> None:
    (tmp_path / "f.csv").write_text(cells(separator))
    found = told(tmp_path / "f.csv")
    assert sum(found["rows"].values()) == 60
    assert set(found["labels"]) == {"x", "y", "z"}
    assert {e["text"] for e in found["examples"]} <= {r["text"] for r in ROWS}
    said = [note for note in found["notes"] if "separated by" in note]
    assert said == [f"the cells of f.csv are separated by {NAMES[separator]}"] * (separator != ",")


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
def test_without_a_known_header_the_separator_is_what_cuts_rows_alike(
    tmp_path: Path, separator: str
) -> None:
    (tmp_path / "f.csv").write_text(cells(separator, header=""))
    found = told(tmp_path / "f.csv", "?text=1&label=2")
    assert sum(found["rows"].values()) == 60


def test_commas_in_texts_do_not_win_over_the_separator_of_the_header(tmp_path: Path) -> None:
    rows = "".join(f"a, b, c, d {n};{n % 2}\n" for n in range(20))
    (tmp_path / "f.csv").write_text("text;label\n" + rows)
    assert told(tmp_path / "f.csv")["examples"][0]["text"].startswith("a, b, c, d")


def test_a_tsv_file_keeps_its_tabs_and_quotes(tmp_path: Path) -> None:
    rows = "".join(f'"a, {n}\t{n % 2}\n' for n in range(20))
    (tmp_path / "f.tsv").write_text("text\tlabel\n" + rows)
    found = told(tmp_path / "f.tsv")
    assert found["examples"][0]["text"] == '"a, 0'
    assert not found["notes"]
    (tmp_path / "g.tsv").write_text("text,label\n" + rows.replace('"', "").replace(", ", " "))
    with pytest.raises(InputError, match=r"g\.tsv has 1 cells, but there are 2 columns"):
        told(tmp_path / "g.tsv")


def test_a_header_that_is_not_understood_is_quoted_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text('Kommentar;"Klasse A"\n' + "gut;1\nschlecht;2\n" * 9)
    with pytest.raises(InputError) as caught:
        told(tmp_path / "f.csv")
    message = str(caught.value)
    assert "'Kommentar;\"Klasse A\"'" in message
    assert "text, sentence, content" in message
    assert "?text=Kommentar&label=Klasse A" in message
    assert "?text=1&label=2" in message
    assert "\n" not in message
    assert told(tmp_path / "f.csv", "?text=Kommentar&label=Klasse A")["rows"]["train"] > 10


def test_a_long_first_line_is_quoted_in_part(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("word " * 500 + ",1\n" + "a,2\n" * 5)
    with pytest.raises(InputError) as caught:
        told(tmp_path / "f.csv")
    assert "'word word" in str(caught.value)
    assert "?text=NAME&label=1" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_the_label_is_looked_for_under_names_that_are_told(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("text,Klasse\na,1\nb,2\n")
    with pytest.raises(InputError, match=r"has text, Klasse, and label, .*\?label=Klasse"):
        told(tmp_path / "f.csv")
    with pytest.raises(InputError, match=r"no column 'klass' in f.csv; the file has text, Klasse"):
        told(tmp_path / "f.csv", "?label=klass")


def test_line_breaks_in_quotes_windows_and_old_macintosh_ends_are_read(tmp_path: Path) -> None:
    text = "text,label\n" + "".join(f'"one\ntwo {n}",{n % 2}\n' for n in range(20))
    found = {}
    for name, raw in {
        "unix": text.encode(),
        "windows": text.replace("\n", "\r\n").encode("utf-8-sig"),
        "macintosh": text.replace("\n", "\r").encode(),
        "utf16": text.encode("utf-16"),
    }.items():
        (tmp_path / f"{name}.csv").write_bytes(raw)
        found[name] = told(tmp_path / f"{name}.csv")
        del found[name]["name"]
    assert found["unix"]["examples"][0]["text"] == "one\ntwo 0"
    assert all(other == found["unix"] for other in found.values())


def test_latin_1_is_named_with_the_command_that_mends_it(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes("text,label\ncafé,x\nb,y\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"line 2\) is not UTF-8.*iconv -f latin1 -t utf-8 f.csv"):
        told(tmp_path / "f.csv")


# --- parquet ----------------------------------------------------------------------------


def parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet as library

    library.write_table(arrow.Table.from_pylist(rows), path)
    return path


def test_parquet_holds_what_jsonl_holds(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    plain, packed = told(tmp_path / "f.jsonl"), told(parquet(tmp_path / "f.parquet", ROWS))
    assert plain["examples"] == packed["examples"]
    assert plain["labels"] == packed["labels"]


def test_every_kind_that_reads_tables_reads_parquet(tmp_path: Path) -> None:
    texts = [f"the house number {n}" for n in range(30)]
    for kind, rows in {
        "match": [{"text_a": t, "text_b": t[::-1], "label": len(t) % 2} for t in texts],
        "tag": [{"tokens": t.split(), "ner_tags": ["O", "O", "O", "B-N"]} for t in texts],
        "span": [{"context": t, "question": "?", "answer": t.split()[-1]} for t in texts],
        "translate": [{"de": t.upper(), "en": t} for t in texts],
        "lm": [{"text": t} for t in texts],
        "mlm": [{"text": t} for t in texts],
    }.items():
        found = told(parquet(tmp_path / f"{kind}.parquet", rows), kind=kind)
        assert set(found["rows"]) == {"train", "valid", "test"}
        if kind not in ("lm", "mlm"):
            assert sum(found["rows"].values()) == 30


def test_a_missing_pyarrow_and_a_broken_file_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path / "f.parquet", ROWS)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="is damaged or not parquet"):
        told(path)
    with pytest.raises(InputError, match="has no rows"):
        told(parquet(tmp_path / "empty.parquet", ROWS[:0]))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"f.parquet needs the pyarrow library.*pip install"):
        told(path)


# --- other kinds ------------------------------------------------------------------------


def test_tags_in_lists_are_those_on_lines(tmp_path: Path) -> None:
    sentences = [(["Ada", f"w{n}"], ["B-PER", "O"]) for n in range(30)]
    lines = "\n\n".join("\n".join(f"{w} {t}" for w, t in zip(*s, strict=True)) for s in sentences)
    (tmp_path / "f.conll").write_text(lines + "\n")
    rows = [{"words": words, "tags": tags} for words, tags in sentences]
    (tmp_path / "f.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "f.json").write_text(json.dumps(rows))
    one, two, three = (told(tmp_path / f"f.{s}", kind="tag") for s in ("conll", "jsonl", "json"))
    assert one["labels"] == two["labels"] == three["labels"]
    assert one["examples"] == two["examples"] == three["examples"]
    for name, marks in (("each", lambda n, _: f"s{n}"), ("first", lambda n, i: f"{n}" * (i == 0))):
        rows = [
            f"{marks(n, i)};{word};NN;{tag}\n"
            for n, sentence in enumerate(sentences)
            for i, (word, tag) in enumerate(zip(*sentence, strict=True))
        ]
        (tmp_path / f"{name}.csv").write_text("Sentence #;Word;POS;Tag\n" + "".join(rows))
        found = told(tmp_path / f"{name}.csv", kind="tag")
        assert found["labels"] == one["labels"]
        assert found["examples"] == one["examples"]
        assert f"the cells of {name}.csv are separated by semicolons" in found["notes"]


def test_a_line_of_names_is_no_sentence(tmp_path: Path) -> None:
    (tmp_path / "f.tsv").write_text("token\tner_tag\n" + "Ada\tB-PER\nis\tO\n\n" * 9)
    found = told(tmp_path / "f.tsv", kind="tag")
    assert set(found["labels"]) == {"B-PER", "O"}
    assert found["metric"] == "entity_f1"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "f.jsonl",
            '{"tokens": ["a"], "tags": ["X", "Y"]}\n',
            "row 1 of f.jsonl has 1 words and 2",
        ),
        ("f.jsonl", '{"tokens": "a b", "tags": "X Y"}\n', "tokens and tags should be two lists"),
        ("f.jsonl", '{"tokens": ["a"], "kind": ["X"]}\n', r"no column 'ner_tags'.*\?column=kind"),
        ("f.csv", "word,tag\na,X\n", r"no column 'sentence' in f.csv; the file has word, tag"),
        ("f.csv", "w;t\na;X\n", r"first line of f.csv is 'w;t'.*\?word=w&column=t&sentence=\.\.\."),
        ("f.csv", "sentence,word,tag\n1,a,X\n1,,Y\n", "row 2 of f.csv has no word"),
        ("f.conll", "a X\n" * 1001, "one sentence of 1,001 words; an empty line should stand"),
    ],
)
def test_bad_lists_of_tags_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        told(tmp_path / name, kind="tag")


@pytest.mark.parametrize(
    ("header", "options"),
    [
        ("", ""),
        ("de\ten\n", ""),
        ("source\ttarget\n", ""),
        ("Deutsch\tEnglisch\n", "?source=Deutsch&target=Englisch"),
    ],
)
def test_one_table_translates_as_two_files_do(tmp_path: Path, header: str, options: str) -> None:
    pairs = [(f"Satz {n} .", f"sentence {n} .") for n in range(30)]
    (tmp_path / "f.tsv").write_text(header + "".join(f"{a}\t{b}\n" for a, b in pairs))
    (tmp_path / "f.de").write_text("".join(f"{a}\n" for a, _ in pairs))
    (tmp_path / "f.en").write_text("".join(f"{b}\n" for _, b in pairs))
    two: Any = load_task(f"translate:{tmp_path}/f.de,{tmp_path}/f.en")
    one: Any = load_task(f"translate:{tmp_path}/f.tsv{options}")
    for split in ("train", "valid", "test"):
        texts = [[part.wanted(part.split(split), row) for row in (0, -1)] for part in (one, two)]
        assert texts[0] == texts[1]
        assert len(one.split(split)) == len(two.split(split))
    said = any("has no header" in note for note in one.describe()["notes"])
    assert said == (not header)


def test_tables_of_translations_have_splits_and_clear_messages(tmp_path: Path) -> None:
    rows = "".join(f"a {n}\tb {n}\n" for n in range(9))
    for split in ("train", "dev", "test"):
        (tmp_path / f"{split}.tsv").write_text(rows)
    assert told(tmp_path, kind="translate")["rows"] == {"train": 9, "valid": 9, "test": 9}
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty holds no table; name two files"):
        told(tmp_path / "empty", kind="translate")
    (tmp_path / "one.tsv").write_text("a b c\nd e f\n")
    with pytest.raises(InputError, match=r"'a b c', in which no comma.*source and target"):
        told(tmp_path / "one.tsv", kind="translate")
    (tmp_path / "gap.tsv").write_text("a\tb\nc\t\n")
    with pytest.raises(InputError, match=r"row 2 of gap.tsv has no target"):
        told(tmp_path / "gap.tsv", kind="translate")


def test_questions_are_read_from_tables(tmp_path: Path) -> None:
    rows = "".join(f"The house number {n}.;Which?;{n}\n" for n in range(30))
    (tmp_path / "f.csv").write_text("context;question;answer\n" + rows)
    found = told(tmp_path / "f.csv", kind="span")
    assert sum(found["rows"].values()) == 30
    assert "the cells of f.csv are separated by semicolons" in found["notes"]
    (tmp_path / "g.csv").write_text("ctx;question;answer\n" + rows)
    with pytest.raises(InputError, match=r"no column 'context' in g.csv.*ctx"):
        told(tmp_path / "g.csv", kind="span")


def test_a_table_of_texts_says_its_separator_to_language_models_too(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("id;text\n" + "".join(f"{n};row, {n}\n" for n in range(30)))
    for options in ("", "?tokenizer=words"):
        found = told(tmp_path / "f.csv", options, kind="lm")
        assert "the cells of f.csv are separated by semicolons" in found["notes"]
        assert "row, 0" in found["examples"][0]["text"].replace(" ,", ",")


def test_rows_of_json_lines_keep_their_place_in_messages(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"text": "a"}\n  \nnot json\n')
    with pytest.raises(InputError, match=r"line 3 of f.jsonl is not JSON"):
        read_table(tmp_path / "f.jsonl")
