"""Repeated stretches are written once: as short as can be, and without quadratic work."""

import sys
import tracemalloc
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from types import FrameType
from typing import Any

import pytest

from formwright.arch import parse
from formwright.arch.folding import folded
from formwright.arch.writer import notation


@cache
def plainly(words: tuple[str, ...], between: str) -> str:
    """The definition: the shortest of all writings, whole texts compared, in cubic time."""
    best = [""]
    for end in range(1, len(words) + 1):
        options = [(end - 1, words[end - 1])]
        for size in range(1, min(end, 24) + 1):
            pattern, begin = words[end - size : end], end - 2 * size
            while begin >= 0 and words[begin : begin + size] == pattern:
                inner = pattern[0] if size == 1 else plainly(pattern, between)
                options.append((begin, f"({inner})x{(end - begin) // size}"))
                begin -= size
        texts = [best[at] + between + piece if at else piece for at, piece in options]
        best.append(min(texts, key=lambda text: (len(text), text)))
    return best[-1]


def sequences(rng: Random, number: int) -> Iterator[tuple[str, ...]]:
    """Words in random order, and stretches of them again and again."""
    for _ in range(number):
        known = rng.choice((["s"], ["s", "f"], ["s1", "s2", "f"], list("abcdef"), ["x", "x2", "2"]))
        words: list[str] = []
        while len(words) < rng.randrange(40):
            words += rng.choices(known, k=rng.randint(1, 8)) * rng.randint(1, rng.choice((2, 15)))
        yield tuple(words)


@pytest.mark.parametrize("between", ["", " "])
def test_the_writing_is_the_shortest_and_of_those_the_first(between: str) -> None:
    for words in sequences(Random(7), 300):
        assert folded(words, between) == plainly(words, between)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", ""),
        ("sss", "sss"),
        ("sfffsfffff", "(sfff)x2ff"),
        ("s" * 1234, "(s)x1234"),
        ("sf" * 99 + "c" * 101, "(sf)x99(c)x101"),
        ("sffffffffc" * 1000, "(s(f)x8c)x1000"),
    ],
)
def test_numbers_of_repetitions_may_have_any_number_of_digits(words: str, wanted: str) -> None:
    assert folded(tuple(words)) == wanted


def work(words: Sequence[str]) -> tuple[int, int]:
    """Lines of Python that folding runs, and the most bytes that it holds at a time."""
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    folded.cache_clear()
    tracemalloc.start()
    folded(tuple(words))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    folded.cache_clear()
    before = sys.gettrace()
    sys.settrace(count)
    folded(tuple(words))
    sys.settrace(before)
    return lines, most


@pytest.mark.parametrize("kind", ["random", "one", "runs"])
def test_work_grows_with_the_words_and_not_with_their_square(kind: str) -> None:
    rng = Random(0)
    words = {
        "random": rng.choices("sfc", k=4000),
        "one": ["s"] * 800,
        "runs": [w for _ in range(40) for w in rng.choice("sfc") * rng.randint(1, 60)],
    }[kind]
    whole, quarter = work(words), work(words[: len(words) // 4])
    assert all(a < 8 * b for a, b in zip(whole, quarter, strict=True))  # 16 would be quadratic


def test_an_architecture_of_thousands_of_layers_is_written_and_read() -> None:
    order = "".join(Random(3).choices("sf", k=10_000))
    arch = parse(f"{order} in gpt2(16)")
    assert parse(notation(arch)) == arch
