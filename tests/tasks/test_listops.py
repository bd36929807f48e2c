"""ListOps against a plain recursive grammar, hand-worked lists and measured statistics."""

from random import Random
from statistics import median
from typing import Any

import numpy as np
import pytest

from formwright.errors import InputError
from formwright.tasks import load_task
from formwright.tasks.batching import draw
from formwright.tasks.listops import ListOpsOptions, TinyOptions, evaluate, grow, show


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("[MIN 4 2 9 ]", 2),
        ("[MAX 4 2 9 ]", 9),
        ("[SM 4 2 9 ]", 5),
        ("[MED 4 2 9 ]", 4),
        ("[MED 4 5 ]", 4),  # 4.5, truncated
        ("[MED 1 2 8 9 ]", 5),
        ("[MAX 2 [MIN 8 7 ] [SM 9 9 ] 0 ]", 8),
        ("( ( ( [MAX 2 ) 9 ) ] )", 9),  # the original files have round brackets
        ("[SM 1 2 X", 3),
    ],
)
def test_the_evaluator_works_lists_out_by_hand(text: str, value: int) -> None:
    assert evaluate(text) == value


@pytest.mark.parametrize("text", ["", "[MIN ]", "[MIN 1 2", "1 2", "] 1", "[AVG 1 2 ]", "12"])
def test_the_evaluator_refuses_what_is_no_list(text: str) -> None:
    with pytest.raises(InputError):
        evaluate(text)


def plain_list(rng: Random, depth: int, options: ListOpsOptions) -> tuple[int, int, int]:
    """The grammar as the paper's code has it: value, length and depth, by plain recursion."""
    inner = depth < options.max_depth and rng.random() <= 0.25
    if not (inner or (depth == 1 and options.operator_root)):
        return rng.randrange(10), 1, depth
    found = [plain_list(rng, depth + 1, options) for _ in range(rng.randint(2, options.max_args))]
    values = [value for value, _, _ in found]
    kind = rng.randrange(4)
    value = (min(values), max(values), int(median(values)), sum(values) % 10)[kind]
    return value, 2 + sum(n for _, n, _ in found), max(d for _, _, d in found)


@pytest.mark.slow
def test_3000_lists_have_the_lengths_classes_and_acceptance_of_the_grammar() -> None:
    options, trees, lengths, values = ListOpsOptions(), 0, [], []
    for turn in range(10):
        rows, found = grow(draw(5, turn), 4096, options)
        trees += 4096
        lengths += [len(row) for row in rows]
        values += found.tolist()
    count = len(values)
    assert count > 3000
    shares = np.bincount(values, minlength=10) / count
    # published statistics of 3,000 lists, within four standard errors of both samples
    error = 4 * np.sqrt(0.082 * 0.918 * (1 / trees + 0.082 / 3000))
    assert count / trees == pytest.approx(0.082, abs=error)
    wanted = [0.171, *[0.083] * 8, 0.173]
    assert np.all(np.abs(shares - wanted) < 4 * np.sqrt(0.173 * 0.827 * 2 / 3000))
    assert min(lengths) > 500
    assert max(lengths) < 2000
    rng, plain = Random(4), []
    while len(plain) < 600:
        length = plain_list(rng, 1, options)[1]
        plain += [length] if 500 < length < 2000 else []
    spread = np.std(lengths) * np.sqrt(1 / count + 1 / len(plain))
    assert abs(np.mean(lengths) - np.mean(plain)) < 4 * spread


def test_tiny_lists_follow_the_plain_grammar() -> None:
    options = TinyOptions()
    rows, values = grow(draw(1), 20_000, options)
    rng, plain = Random(1), []
    while len(plain) < 8_000:
        value, length, _ = plain_list(rng, 1, options)
        plain += [(value, length)] if 5 < length < 30 else []
    ours = np.array([len(row) for row in rows])
    theirs = np.array([length for _, length in plain])
    spread = ours.std() * np.sqrt(1 / len(ours) + 1 / len(theirs))
    assert abs(ours.mean() - theirs.mean()) < 4 * spread
    a = np.bincount(values, minlength=10) / len(values)
    b = np.bincount([value for value, _ in plain], minlength=10) / len(plain)
    assert np.all(np.abs(a - b) < 4 * np.sqrt(0.1 * 0.9 * (1 / len(values) + 1 / len(plain))))


def test_every_generated_label_is_what_the_evaluator_says() -> None:
    for options in (TinyOptions(), ListOpsOptions(max_depth=7, min_length=50, max_length=400)):
        rows, values = grow(draw(2), 3_000, options)
        assert len(rows) > 50
        for row, value in zip(rows[:400], values[:400], strict=True):
            assert evaluate(show(row)) == value


def test_listops_tiny_has_the_stated_sizes_and_its_splits_share_nothing() -> None:
    task: Any = load_task("listops-tiny")
    told = task.describe()
    assert told["rows"] == {"train": 8000, "valid": 1000, "test": 1000}
    lengths = task.split("train").lengths
    assert lengths.mean() == pytest.approx(12.8, abs=0.2)
    assert told["lengths"]["min"] > 5
    assert told["lengths"]["max"] < 30
    shares = np.bincount(task.split("train").targets) / 8000
    assert 0.08 < shares.min() <= shares.max() < 0.12
    assert task.frame.vocab == 17
    columns = [task.split(split).columns["tokens"] for split in ("train", "valid", "test")]
    texts = [bytes(column[row]) for column in columns for row in range(len(column))]
    assert len(set(texts)) == 10_000


def test_a_grammar_that_cannot_give_so_many_lists_says_so() -> None:
    task: Any = load_task("listops-tiny?max_depth=2&max_args=2&max_length=7&min_length=3")
    with pytest.raises(InputError, match="different lists"):
        task.split("train")
