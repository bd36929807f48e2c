"""The programme finds what listing everything finds, and says what is possible at all."""

import itertools
import sys
from random import Random

import pytest

from formwright.distil.programme import Choices, best_choice, require_choice
from formwright.errors import InputError


def drawn(rng: Random, places: int = 5, most: int = 4) -> Choices:
    sizes = [rng.randint(1, most) for _ in range(places)]

    def table(scale: float) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(rng.random() * scale for _ in range(size)) for size in sizes)

    return Choices(table(1), {"latency": table(3), "params": table(1e6)}, {
        "latency": 1.0, "params": 5e5,
    })  # fmt: skip


def listed(choices: Choices, limits: dict[str, float]) -> list[tuple[float, tuple[int, ...]]]:
    every = itertools.product(*(range(len(row)) for row in choices.scores))
    return sorted((choices.score(c), c) for c in every if choices.keeps(c, limits))


def test_the_programme_is_as_good_as_listing_everything() -> None:
    rng, solved = Random(0), 0
    for _ in range(40):
        choices = drawn(rng)
        limits = {"latency": 3 + 8 * rng.random(), "params": 1e6 + 4e6 * rng.random()}
        known, found = listed(choices, limits), best_choice(choices, limits)
        assert (found is None) == (not known)
        if found is not None:
            solved += 1
            assert choices.keeps(found, limits)
            assert choices.score(found) == pytest.approx(known[0][0], abs=1e-9)
    assert solved > 10


def test_the_next_best_follow_in_order() -> None:
    choices, limits = drawn(Random(3)), {"latency": 9.0}
    known, found = listed(choices, limits), list[tuple[int, ...]]()
    for _ in range(5):
        again = best_choice(choices, limits, without=found)
        assert again is not None
        found.append(again)
    assert [choices.score(c) for c in found] == pytest.approx([s for s, _ in known[:5]])


def test_few_changes_stay_near() -> None:
    choices, rng = drawn(Random(4)), Random(5)
    here = tuple(rng.randrange(len(row)) for row in choices.scores)
    found = best_choice(choices, {"latency": 100.0}, near=here, changes=2)
    assert found is not None
    apart = sum(a != b for a, b in zip(here, found, strict=True))
    assert apart <= 2
    near = [
        s
        for s, c in listed(choices, {"latency": 100.0})
        if sum(a != b for a, b in zip(here, c, strict=True)) <= 2
    ]
    assert choices.score(found) == pytest.approx(min(near))


def test_what_diverged_is_never_taken() -> None:
    choices = Choices(
        ((0.0, float("nan")), (0.0, 1.0)), {"params": ((9, 1), (9, 2))}, {"params": 0}
    )
    assert best_choice(choices, {"params": 12}) == (0, 1)
    assert best_choice(choices, {"params": 5}) is None
    assert choices.least("params") == 11


def test_impossible_limits_name_the_smallest_possible() -> None:
    choices = Choices(
        ((0.0, 1.0), (0.0, 1.0)),
        {"latency": ((4, 1), (4, 2)), "params": ((5, 9), (5, 9))},
        {"latency": 2.0, "params": 1.0},
    )
    with pytest.raises(InputError, match=r"latency at most 4 ms: the smallest possible.* 5 ms"):
        require_choice(choices, {"latency": 4})
    with pytest.raises(InputError, match="at once, though each alone"):
        require_choice(choices, {"latency": 5, "params": 11})
    assert require_choice(choices, {"latency": 5}) == (1, 1)


def test_without_scipy_the_command_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(InputError, match=r"pip install 'formwright\[compress\]'"):
        best_choice(drawn(Random(0)), {})
