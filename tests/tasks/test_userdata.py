"""What is measured on a user's data, and what is said about it before a number is believed."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from formwright.errors import InputError
from formwright.estimate.spread import standard_error
from formwright.model import build
from formwright.tasks import Task, load_task, metrics, notes
from formwright.train import TrainConfig


def csv(folder: Path, **splits: list[tuple[str, str]]) -> Path:
    for split, rows in splits.items():
        text = "".join(f"{text},{label}\n" for text, label in rows)
        (folder / f"{split}.csv").write_text("text,label\n" + text)
    return folder


def short(count: int = 40) -> list[tuple[str, str]]:
    return [(f"word {n}", "ab"[n % 2]) for n in range(count)]


def score(task: Task) -> dict[str, float]:
    return task.score(build(task.architecture("(sf)x1", 32)), batch_tokens=500)


# --- lengths ----------------------------------------------------------------------------


def test_what_is_measured_on_is_never_cut_by_the_length_of_training_rows(tmp_path: Path) -> None:
    long = [(" ".join(["word"] * 30), "a"), ("word", "b")]
    longer = [(" ".join(["word"] * 50), "a"), (" ".join(["word"] * 9), "b")]
    task: Any = load_task(f"classify:{csv(tmp_path, train=short(), valid=long, test=longer)}")
    assert task.frame.length == 50
    assert task.split("valid").lengths.max() == 30
    assert task.split("test").lengths.max() == 50
    told = task.describe()
    assert told["truncated"] == {"train": 0, "valid": 0, "test": 0}
    said = [
        "1 row of valid is longer than any training row (up to 30 tokens against 2)",
        "2 rows of test are longer than any training row (up to 50 tokens against 2)",
    ]
    assert told["notes"] == said


def test_rows_that_must_be_cut_are_counted_split_by_split(tmp_path: Path) -> None:
    rows = [(" ".join(["word"] * n), "ab"[n % 2]) for n in range(1, 21)]
    folder = csv(tmp_path, train=rows, valid=rows[10:], test=rows[:5])
    told = load_task(f"classify:{folder}?length=8").describe()
    assert told["truncated"] == {"train": 12, "valid": 10, "test": 0}
    assert told["notes"] == [
        "rows longer than 8 tokens are cut at the end: 12 of 20 in train, 10 of 10 in valid; "
        "length=N reads more"
    ]


def test_without_a_word_of_the_user_there_is_a_cap(tmp_path: Path) -> None:
    rows = [(" ".join(["word"] * 600), "a"), *short()]
    told = load_task(f"classify:{csv(tmp_path, train=short(), valid=rows)}").describe()
    assert told["longest"] == 512
    assert "cut at the end: 1 of 41 in valid" in told["notes"][0]


def test_all_kinds_read_what_they_are_measured_on_whole(tmp_path: Path) -> None:
    sentence, long = "Ada B\nis O\n\n", "Ada B\n" + "is O\n" * 20 + "\n"
    for split, text in (("train", sentence * 5), ("valid", long)):
        (tmp_path / f"{split}.conll").write_text(text)
    for split, words in (("train", 2), ("valid", 21)):
        row = {"context": "x " * words + "Ada", "question": "?", "answer": "Ada"}
        (tmp_path / f"{split}.jsonl").write_text((json.dumps(row) + "\n") * 5)
        for language in ("aa", "bb"):
            (tmp_path / f"{split}.{language}").write_text(("x " * words + "\n") * 5)
    for name in (
        "tag:{}/train.conll",
        "span:{}/train.jsonl",
        "translate:{0}/train.aa,{0}/train.bb",
    ):
        task: Any = load_task(name.format(tmp_path))
        told = task.describe()
        assert told["truncated"] == {"train": 0, "valid": 0}
        assert task.split("valid").lengths.max() > 20
        assert any("of valid" in note and "longer than any" in note for note in told["notes"])
        score(task)


def test_short_segments_of_hidden_symbols_are_said(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("some words and more\n" * 20)
    told = load_task(f"mlm:{tmp_path}/book.txt").describe()
    assert any("so segments have no more; usual: 256" in note for note in told["notes"])
    told = load_task(f"mlm:{tmp_path}/book.txt?length=8").describe()
    assert told["notes"] == ["rows are symbols: the text is read as a stream"]


# --- classes ----------------------------------------------------------------------------


def counted(**counts: int) -> list[tuple[str, str]]:
    return [(f"word {label} {n}", label) for label, count in counts.items() for n in range(count)]


@pytest.mark.parametrize(
    ("counts", "is_said"),
    [
        ({"a": 50, "b": 50}, False),
        ({"a": 80, "b": 20}, False),
        ({"a": 81, "b": 19}, True),
        ({"a": 50, "b": 45, "c": 5}, False),
        ({"a": 50, "b": 46, "c": 4}, True),
    ],
)
def test_uneven_classes_are_said_with_numbers(
    tmp_path: Path, counts: dict[str, int], is_said: bool
) -> None:
    folder = csv(tmp_path, train=counted(**counts), valid=short(10))
    told = load_task(f"classify:{folder}").describe()["notes"]
    said = [note for note in told if note.startswith("classes are uneven")]
    assert len(said) == is_said
    if is_said:
        rare = min(counts, key=lambda label: counts[label])
        assert f"'a' has {counts['a']} training rows ({counts['a']} %)" in said[0]
        assert f"{rare!r} has {counts[rare]}" in said[0]
        assert "metric=macro_f1" in said[0]
        even = load_task(f"classify:{folder}?metric=macro_f1").describe()["notes"]
        assert not any("metric=macro_f1" in note for note in even)
        assert any(note.startswith("classes are uneven") for note in even)


def test_a_class_that_only_measuring_shows_is_said_or_refused(tmp_path: Path) -> None:
    counts = {"train": {"a": 9, "b": 0}, "valid": {"a": 1, "b": 2}, "test": {"a": 1, "b": 1}}
    assert notes.unseen(counts) == [
        "labels that training never shows cannot be learnt: 'b' (2 in valid), 'b' (1 in test)"
    ]
    many = {"train": {}, "valid": {str(n): 1 for n in range(9)}}
    assert notes.unseen(many)[0].endswith("'2' (1 in valid) and 6 more")
    assert not notes.unseen({"train": {"a": 1}, "valid": {"a": 1}})
    folder = csv(tmp_path, train=short(), valid=[("x", "a"), ("y", "q"), ("z", "r")])
    with pytest.raises(InputError, match=r"row 2 of valid.csv has the label 'q'.*2 of 3 rows"):
        load_task(f"classify:{folder}")


def test_a_label_that_the_split_leaves_to_measuring_is_said(tmp_path: Path) -> None:
    # which split a row goes to follows from its content: look for one that is not for training
    for n in range(100):
        rows = [*short(60), (f"lonely {n}", "c")]
        (tmp_path / "f.csv").write_text("text,label\n" + "".join(f"{a},{b}\n" for a, b in rows))
        told = load_task(f"classify:{tmp_path}/f.csv").describe()
        if told["labels"]["c"] == 0:
            break
    assert any("never shows cannot be learnt: 'c' (1 in" in note for note in told["notes"])


def test_amounts_and_generated_data_are_not_called_uneven(tmp_path: Path) -> None:
    folder = csv(
        tmp_path, train=[(f"w {n}", f"{n % 3}.5") for n in range(40)], valid=[("w", "1.5")]
    )
    assert load_task(f"classify:{folder}").describe()["notes"] == ["labels are numbers: regression"]
    for name in ("planted-far?train=9", "copy?train=9", "pairs?train=9&valid=9", "listops-tiny"):
        assert load_task(name).cautions() == []  # type: ignore[attr-defined]


# --- entities ---------------------------------------------------------------------------


def tagged(folder: Path, tags: list[str]) -> Path:
    sentences = "\n".join(f"w{n} {tag}\nx {tags[0]}\n" for n, tag in product(range(20), tags))
    (folder / "f.conll").write_text(sentences + "\n")
    return folder / "f.conll"


def test_entities_are_measured_as_entities(tmp_path: Path) -> None:
    path = tagged(tmp_path, ["O", "B-PER", "I-PER"])
    task: Any = load_task(f"tag:{path}")
    assert task.metric == "entity_f1"
    assert {"entity_f1", "accuracy", "macro_f1"} <= set(score(task))
    data = task.split("valid")
    right = [
        row[row > 0].astype(int) - 1 for row in map(data.targets.__getitem__, range(len(data)))
    ]
    assert task.judge(right)["entity_f1"] == 1.0
    blind = [np.full_like(row, task.labels.index("O")) for row in right]
    assert task.judge(blind)["entity_f1"] == 0.0
    assert task.judge(blind)["accuracy"] > 0.4
    assert load_task(f"tag:{path}?metric=accuracy").metric == "accuracy"


def test_other_tags_are_not(tmp_path: Path) -> None:
    path = tagged(tmp_path, ["NOUN", "VERB"])
    task = load_task(f"tag:{path}")
    assert task.metric == "accuracy"
    assert "entity_f1" not in score(task)
    with pytest.raises(InputError, match="cannot be measured by 'entity_f1'; use one of accuracy"):
        load_task(f"tag:{path}?metric=entity_f1")


def test_entities_of_words_in_pieces_are_those_of_words(tmp_path: Path) -> None:
    path = tagged(tmp_path, ["O", "B-PER", "I-PER"])
    for tokenizer in ("shapes", "bytes", "chars"):
        task: Any = load_task(f"tag:{path}?tokenizer={tokenizer}")
        batch = next(task.batches("valid", batch_tokens=10_000))
        answers = batch.targets.clamp(min=0)[..., None] == np.arange(3)
        found = task._read(answers.float(), batch)
        assert task._measure([(found, batch)], task.split("valid"))["entity_f1"] == 1.0


# --- translations -----------------------------------------------------------------------


def pairs(folder: Path) -> str:
    words = ("Red", "old", "Large", "new", "green", "blue", "small")
    rows = [f"the {a} house is {b} and not {a}." for a, b in product(words, words)]
    (folder / "f.tsv").write_text("".join(f"{row}\t{row}\n" for row in rows))
    return f"translate:{folder}/f.tsv"


@pytest.mark.parametrize("tokenizer", ["words", "spaces", "chars"])
def test_sacrebleu_is_measured_where_it_is_installed(tmp_path: Path, tokenizer: str) -> None:
    pytest.importorskip("sacrebleu")
    task: Any = load_task(f"{pairs(tmp_path)}?tokenizer={tokenizer}")
    assert task.metric == "sacrebleu"
    data = task.split("valid")
    right = [task.tokenizer.encode(task.wanted(data, row)) for row in range(len(data))]
    found = task._compared(right, list(range(len(data))), data)
    assert found["sacrebleu"] == pytest.approx(100)
    assert found["exact"] == 1.0
    assert found["bleu"] == pytest.approx(100)
    wrong = [task.tokenizer.encode("the old house and the new")] * len(right)
    assert task._compared(wrong, list(range(len(data))), data)["sacrebleu"] < 50
    assert ("lower case" in " ".join(task.describe()["notes"])) == (tokenizer == "words")


def test_without_the_library_our_own_bleu_counts_and_this_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "has_sacrebleu", lambda: False)
    task = load_task(pairs(tmp_path))
    assert task.metric == "bleu"
    assert any("pip install sacrebleu" in note for note in task.describe()["notes"])
    assert "sacrebleu" not in score(task)
    with pytest.raises(InputError, match="Install it with: pip install sacrebleu"):
        load_task(f"{pairs(tmp_path)}?metric=sacrebleu")


# --- the user's own ---------------------------------------------------------------------


class Recorded:
    """A metric that remembers what it was given."""

    higher_is_better = False
    __name__ = "mine"

    def __call__(self, answers: list[Any], wanted: list[Any]) -> float:
        self.answers, self.wanted = answers, wanted
        return float(sum(a != w for a, w in zip(answers, wanted, strict=True)))


def test_a_function_of_the_users_is_the_metric_of_any_kind(data: Path) -> None:
    for name in (
        "classify:{}/reviews.csv?text=body&label=stars",
        "classify:{}/scores.tsv",
        "match:{}/pairs.jsonl",
        "tag:{}/tags.conll",
        "span:{}/questions.json",
        "translate:{0}/train.aa,{0}/train.bb",
        "copy?train=20&valid=10",
        "planted-tag?train=20&valid=10",
        "listops-tiny",
    ):
        mine = Recorded()
        task: Any = load_task(name.format(data), metric=mine)
        assert task.metric == task.objective.name == "mine"
        assert not task.higher_is_better
        found = score(task)
        assert found["mine"] == sum(a != w for a, w in zip(mine.answers, mine.wanted, strict=True))
        assert len(mine.wanted) == task.describe()["rows"]["valid"]


def test_answers_come_in_the_words_of_the_users_files(data: Path) -> None:
    mine = Recorded()
    score(load_task(f"classify:{data}/reviews.csv?text=body&label=stars", metric=mine))
    assert {*mine.answers, *mine.wanted} <= {"long", "short"}
    score(load_task(f"tag:{data}/tags.conll", metric=mine))
    assert {tag for row in mine.wanted for tag in row} == {"COLOUR", "OTHER"}
    score(load_task(f"span:{data}/questions.json", metric=mine))
    assert all(
        isinstance(a, str) and isinstance(w, list)
        for a, w in zip(mine.answers, mine.wanted, strict=True)
    )
    task: Any = load_task(f"translate:{data}/train.aa,{data}/train.bb", metric=mine)
    score(task)
    whole = {task.wanted(task.split("valid"), row) for row in range(len(mine.wanted))}
    assert set(mine.wanted) == whole


def test_a_plain_function_is_better_when_it_is_more(data: Path) -> None:
    def share(answers: list[Any], wanted: list[Any]) -> float:
        return sum(a == w for a, w in zip(answers, wanted, strict=True)) / len(wanted)

    name = f"classify:{data}/reviews.csv?text=body&label=stars"
    task = load_task(name, metric=share)
    found = score(task)
    assert found["share"] == pytest.approx(found["accuracy"])
    assert task.higher_is_better
    assert task.metric == "share"
    with pytest.raises(InputError, match="The metric lambda gave None"):
        score(load_task(name, metric=lambda a, b: None))
    with pytest.raises(InputError, match="follows from the loss; it takes no metric of your own"):
        load_task(f"lm:{data}/book.txt", metric=share)


@pytest.mark.parametrize(
    ("metric", "value", "wanted"),
    [
        ("sacrebleu", 25.0, 25.0 * 3**0.5),
        ("mine", 0.2, 0.4),
        ("mine", 30.0, 30.0),
        ("mine", -3.0, 3.0),
    ],
)
def test_how_far_a_metric_may_be_off_fits_its_scale(
    tmp_path: Path, metric: str, value: float, wanted: float
) -> None:
    task: Any = load_task(pairs(tmp_path))
    task.metric, rows = metric, len(task.split("valid"))
    model = build(task.architecture("(sf)x1", 16))
    found = standard_error(task, model, {metric: value, "loss": 1.0}, TrainConfig(steps=1))
    count = (
        rows if metric == "sacrebleu" else int(sum(b.count for b in task.batches(batch_tokens=9)))
    )
    assert found == pytest.approx(wanted / count**0.5)


def test_rare_tags_are_usual_and_one_tag_everywhere_is_not(tmp_path: Path) -> None:
    some = "a DET\nhouse NOUN\n\n" * 30 + "oh INTJ\n\n"
    most = "a DET\n" + "house NOUN\n" * 9 + "\n"
    for text, is_said in ((some, False), (most * 20, True)):
        (tmp_path / "f.conll").write_text(text)
        told = load_task(f"tag:{tmp_path}/f.conll").describe()["notes"]
        assert any(note.startswith("classes are uneven: 'NOUN'") for note in told) is is_said
