"""Which trials count: like is compared with like, and a new rung does not empty the front."""

from dataclasses import replace
from typing import Any

from formwright.study.front import counting, front
from formwright.trial import FINAL_RUNG, RIVAL, Objective, Trial

LOSS, SIZE = Objective("loss"), Objective("size")


def done(number: int, loss: float, size: float, rung: int = 0, **more: Any) -> Trial:
    values = {"loss": loss, "size": size}
    return Trial(number, {"n": number}, f"a{number}", "done", values, rung=rung, **more)


FIRST = [done(0, 3.0, 1.0), done(1, 2.0, 2.0), done(2, 1.0, 3.0), done(3, 3.0, 3.0)]


def numbers(trials: list[Trial]) -> list[int]:
    return [trial.number for trial in front(trials, [LOSS, SIZE])]


def test_the_first_promotion_does_not_empty_the_front() -> None:
    assert numbers(FIRST) == [2, 1, 0]
    assert numbers([*FIRST, done(4, 0.5, 3.0, rung=1)]) == [2, 1, 0]
    assert numbers([*FIRST, done(4, 0.5, 3.0, rung=1), done(5, 0.4, 2.0, rung=1)]) == [2, 1, 0]


def test_a_rung_with_a_quorum_speaks_for_the_study_alone() -> None:
    promoted = [done(4, 0.5, 3.0, rung=1), done(5, 0.4, 2.0, rung=1), done(6, 0.9, 1.0, rung=1)]
    assert numbers([*FIRST, *promoted]) == [5, 6]


def test_as_many_as_the_front_below_are_a_quorum_too() -> None:
    alone = [LOSS]
    below = [done(0, 3.0, 1.0), done(1, 2.0, 2.0)]
    above = [*below, done(2, 2.5, 2.0, rung=1)]
    assert [t.number for t in front(below, alone)] == [1]
    assert [t.number for t in front(above, alone)] == [2]


def test_a_rung_whose_trials_break_the_limits_does_not_speak() -> None:
    promoted = [done(n, 0.1, 9.0, rung=1) for n in (4, 5, 6)]
    assert [t.number for t in front([*FIRST, *promoted], [LOSS, SIZE], {"size": 3.0})] == [2, 1, 0]


def test_failed_and_repeated_trials_do_not_count_twice() -> None:
    broken = Trial(4, {"n": 4}, state="failed", reason="no")
    copy = done(5, 1.0, 3.0, original=2)
    again = Trial(**{**vars(copy), "arch": "a2"})
    assert numbers([*FIRST, broken, again]) == [2, 1, 0]
    assert len(counting([*FIRST, broken, again], [LOSS, SIZE], {})) == 5


def test_no_trial_no_front() -> None:
    assert front([], [LOSS]) == []


def measured(number: int, loss: float, size: float, off: float = 0.0, **more: Any) -> Trial:
    """A trial whose size is known to within a share."""
    found = done(number, loss, size, **more)
    values = {"size_low": size * (1 - off), "size_high": size * (1 + off)}
    return replace(found, values={**found.values, **values})


def test_what_is_level_in_cost_and_clearly_worse_is_not_on_the_front() -> None:
    worse, better = measured(0, 3.0, 1.000, 0.02), measured(1, 2.0, 1.0003, 0.02)
    cheaper = measured(2, 3.0, 0.5, 0.02)
    assert numbers([worse, better, cheaper]) == [1, 2]
    exact = [measured(0, 3.0, 1.000), measured(1, 2.0, 1.0003)]
    assert numbers(exact) == [1, 0], "without intervals every difference counts"


def test_a_limit_is_held_against_the_upper_end() -> None:
    above, below = measured(0, 2.0, 0.99, 0.02), measured(1, 3.0, 0.9, 0.02)
    assert [t.number for t in front([above, below], [LOSS, SIZE], {"size": 1.0})] == [1]


def test_finals_alone_speak_once_all_of_them_have_ended() -> None:
    short = [done(0, 1.0, 1.0), done(1, 2.0, 0.5), done(2, 3.0, 0.2)]
    final = done(3, 2.5, 1.0, rung=FINAL_RUNG)
    waiting = Trial(4, {"a": 4}, rung=FINAL_RUNG)
    assert numbers([*short, final, waiting]) == [0, 1, 2]
    assert numbers([*short, final]) == [3], "however few they are"
    later = done(5, 2.7, 1.0, rung=FINAL_RUNG + 1)
    assert numbers([*short, final, later]) == [5], "of several the newest"


def test_rivals_are_never_on_the_front() -> None:
    rival = replace(done(1, 0.1, 0.1), origin=RIVAL)
    assert numbers([done(0, 1.0, 1.0), rival]) == [0]
