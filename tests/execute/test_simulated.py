"""Simulated workers: the real loop on a made-up clock."""

from pathlib import Path

import pytest
from tests.study.toy import archive, free, study

from formwright.errors import InputError
from formwright.execute import Serial
from formwright.execute.simulated import Simulated, World
from formwright.study import run

CALM = World(seconds=100.0, spread=0.0, straggling=0.0, lost=0.0)


def test_the_search_is_the_one_of_a_single_process(tmp_path: Path) -> None:
    alone, many = study(tmp_path / "alone", window=6), study(tmp_path / "many", window=6)
    run(alone, Serial(free), trials=40)
    run(many, Simulated(free, 5, world=World(lost=5.0, straggling=0.2)), trials=40)
    assert archive(many) == archive(alone)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 1200.0), (3, 400.0), (12, 100.0)])
def test_the_clock_says_how_long_it_would_have_taken(
    tmp_path: Path, workers: int, seconds: float
) -> None:
    executor = Simulated(free, workers, world=CALM)
    run(study(tmp_path / "s", strategy="random", window=12), executor, trials=12)
    assert executor.clock == pytest.approx(seconds)
    assert executor.used == pytest.approx(1.0)


def test_lost_workers_cost_time_and_no_trial(tmp_path: Path) -> None:
    made = study(tmp_path / "s", window=8)
    executor = Simulated(free, 4, world=World(seconds=600.0, lost=3.0, away=60.0))
    run(made, executor, trials=40)
    assert made.state.done == 40
    assert executor.losses > 5
    assert executor.wasted > 0
    assert executor.used < 1.0


def test_a_straggler_holds_up_a_small_window_more_than_a_large_one(tmp_path: Path) -> None:
    world, used = World(straggling=0.1, slower=10.0, lost=0.0), []
    for factor in (1, 8):
        executor = Simulated(free, 10, world=world)
        made = study(tmp_path / f"s{factor}", strategy="random", window=10 * factor)
        run(made, executor, trials=10_000, stop=lambda e=executor: e.clock > 6 * 3600)
        used.append(executor.used)
    assert used[0] < 0.7 * used[1]


def test_a_time_limit_ends_trials_of_the_clock(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    run(made, Simulated(free, 1, world=CALM, time_limit=50.0), trials=3)
    assert {trial.reason for trial in made.trials} == {
        "It took longer than the time limit of 50 s."
    }
    assert [trial.seconds for trial in made.trials] == [50.0] * 3


def test_longer_training_takes_its_share(tmp_path: Path) -> None:
    made = study(tmp_path / "s", strategy="asha", options={"steps": 100, "rungs": 2})
    world = World(seconds=100.0, spread=0.0, straggling=0.0, lost=0.0, usual=100)
    run(made, Simulated(free, 1, world=world), trials=8)
    assert {t.rung: t.seconds for t in made.trials if t.original is None} == {0: 100.0, 1: 300.0}


def test_worlds_that_cannot_be_are_refused() -> None:
    for wrong in ({"seconds": 0.0}, {"slower": 0.5}, {"lost": -1.0}):
        with pytest.raises(InputError, match="cannot be"):
            World(**wrong)
    with pytest.raises(InputError, match="not between 0 and 1"):
        World(straggling=2.0)
    with pytest.raises(InputError, match="0 workers"):
        Simulated(free, 0)
