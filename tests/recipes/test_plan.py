"""How a budget is spent: laws of the plan."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formwright.recipes.course import _paces
from formwright.recipes.plan import Plan, counted, loaded, longest, planned, stages_for
from formwright.trial import Trial

BUDGETS = st.floats(120, 100_000)
PACES = st.floats(0.005, 2.0)


@given(BUDGETS, PACES, st.integers(1, 16))
def test_at_least_two_fifths_go_into_finals(seconds: float, pace: float, workers: int) -> None:
    made = planned(seconds, workers, pace, rivals=3)
    assert made.search is not None
    assert 0 < made.search <= 0.6 * seconds
    assert list(made.stages) == sorted(set(made.stages))
    assert made.stages[-1] < made.steps


@given(st.lists(BUDGETS, min_size=2, max_size=2), PACES)
def test_more_budget_means_longer_training(budgets: list[float], pace: float) -> None:
    """Within one class of budgets; a larger class may spend some of it on rates and seeds."""
    small, large = (planned(seconds, 2, pace, rivals=3) for seconds in sorted(budgets))
    if (small.rates, small.seeds, small.finalists) == (large.rates, large.seeds, large.finalists):
        assert small.steps <= large.steps
        assert small.stages[-1] <= large.stages[-1]


def test_five_minutes_an_hour_and_a_night_have_different_ladders() -> None:
    five, hour, night = (planned(s, 2, 0.12, rivals=3) for s in (300, 3600, 8 * 3600))
    assert len({five.stages, hour.stages, night.stages}) == 3
    assert five.steps < hour.steps < night.steps
    assert (five.seeds, night.seeds) == (1, 2)
    assert len(hour.rates) == len(night.rates) == 3


@given(st.integers(80, 10**6))
def test_each_stage_is_three_times_the_one_before(steps: int) -> None:
    stages = stages_for(steps)
    assert all(b == 3 * a for a, b in itertools.pairwise(stages))
    assert stages[-1] <= max(50, steps // 4)


def test_a_plan_survives_being_written() -> None:
    made = planned(1800, 2, 0.1, rivals=3, spent=4.0)
    assert Plan.from_data(made.to_data()) == made


def test_a_plan_is_said_in_three_lines_of_a_terminal() -> None:
    lines = planned(300, 2, 0.12, rivals=3, spent=5.0).lines
    assert len(lines) == 3
    assert "2 finalists and the best rival" in lines[1]
    assert lines[2].startswith("of 5.0 min: 2.5 min for trials")


def test_a_budget_that_is_spent_before_it_begins_is_told_as_that() -> None:
    lines = planned(40, 2, 0.12, rivals=3, spent=55.0).lines
    assert lines[2].startswith("40 s are over before trials and finals can fit in")
    assert not any("-" in line for line in lines), "no time is below nothing"


def test_a_number_of_trials_needs_no_clock() -> None:
    made = counted(20, (60, 180), 2, rivals=3)
    assert (made.seconds, made.search, made.steps) == (None, None, 540)
    assert len(made.lines) == 2


@pytest.mark.parametrize(
    ("paces", "workers", "steps"),
    [((1.0,), 1, 60), ((1.0, 1.0), 2, 60), ((1.0, 1.0), 1, 30), ((2.0, 1.0, 1.0), 2, 30)],
)
def test_models_are_trained_as_long_as_the_dearest_process_can(
    paces: tuple[float, ...], workers: int, steps: int
) -> None:
    assert longest(60.0, workers, paces) == steps


def test_finals_are_planned_by_the_share_of_a_processor_just_now() -> None:
    plan = planned(180.0, 2, 0.1)
    alone = Trial(0, {}, values={"step_seconds": 0.1, "processor_share": 1.0})
    beside = Trial(1, {}, values={"step_seconds": 0.1, "processor_share": 0.5})
    calm, busy = (_paces(plan, [alone, beside], share) for share in (1.0, 0.25))
    assert calm[1] == pytest.approx(2 * calm[0])
    assert busy == pytest.approx([4 * calm[0]] * 2)
    assert longest(100.0, 1, busy) == pytest.approx(longest(100.0, 1, calm) * 3 / 8, abs=1)
    assert loaded(1, busy) == pytest.approx(sum(busy))
    assert loaded(2, busy) == pytest.approx(busy[0])
