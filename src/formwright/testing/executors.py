"""The laws that every executor must obey: a test case for plug-in authors to subclass.

from formwright.testing import ExecutorTestCase

class TestMine(ExecutorTestCase):
    name = "mine"                        # as announced
    isolated = True                      # a trial may end its process, or take too long
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from formwright.execute import Serial, executor_for
from formwright.space import OneOf, TreeSpace
from formwright.study import Evaluate, Executor, Job, Rules, Study, run
from formwright.testing.strategies import toy_space, toy_values
from formwright.trial import Objective

_OBJECTIVES = (Objective("error"), Objective("speed", "max"))
_WINDOW = 4


class ExecutorTestCase:
    """Tests one executor on evaluators that fail, die, take their time, or do as they should."""

    name: ClassVar[str]
    workers: ClassVar[int] = 2
    isolated: ClassVar[bool] = False

    def test_whoever_evaluates_the_search_is_the_same(self, tmp_path: Path) -> None:
        alone = study(tmp_path / "alone")
        run(alone, Serial(troubled), trials=24)
        made = study(tmp_path / "study")
        for trials in (9, 24):  # in two sessions
            assert run(made, self.made(troubled), trials=trials) == "trials"
        assert archive(made) == archive(alone)
        assert {trial.state for trial in made.trials} == {"done", "failed"}
        assert (made.trial_folder(2) / "error.txt").exists()

    def test_nothing_is_evaluated_twice(self, tmp_path: Path) -> None:
        few = TreeSpace((OneOf("width", (16, 32)), OneOf("inner", (32, 64))), name="four")
        made = study(tmp_path / "study", space=few, control=1)  # all drawn at random: repeats
        evaluate = Noted(tmp_path / "tried")
        assert run(made, self.made(evaluate), trials=14) == "trials"
        assert made.state.done == 14
        tried = Counter((tmp_path / "tried").read_text(encoding="utf-8").split())
        assert set(tried.values()) == {1}
        assert len(tried) == sum(trial.original is None for trial in made.trials) <= 4

    def test_a_wish_to_stop_ends_it_with_what_ran_on_record(self, tmp_path: Path) -> None:
        made, evaluate = study(tmp_path / "study"), Noted(tmp_path / "tried", pause=0.05)
        executor = self.made(evaluate)
        assert run(made, executor, trials=500, stop=lambda: made.state.done >= 3) == "stopped"
        assert made.state.running == 0
        ended, tried = made.state.done, (tmp_path / "tried").read_text(encoding="utf-8").split()
        assert 3 <= ended == len(tried) <= 3 + _WINDOW
        assert run(made, self.made(measured), trials=14) == "trials"
        alone = study(tmp_path / "alone")
        run(alone, Serial(measured), trials=14)
        assert archive(made) == archive(alone)

    def test_it_can_be_closed_at_any_time_and_twice(self, tmp_path: Path) -> None:
        made, executor = study(tmp_path / "study"), self.made(measured)
        executor.start(made)
        assert executor.collect(0.01) == []
        assert executor.close() == []
        assert executor.close() == []

    def test_a_trial_that_ends_its_process_fails_and_the_others_go_on(self, tmp_path: Path) -> None:
        self.only_isolated()
        made = study(tmp_path / "study")
        assert run(made, self.made(deadly), trials=8) == "trials"
        assert [trial.number for trial in made.trials if not trial.done] == [3]
        assert made.trials[3].reason

    def test_a_trial_over_its_time_fails_and_the_others_go_on(self, tmp_path: Path) -> None:
        self.only_isolated()
        made = study(tmp_path / "study")
        assert run(made, self.made(sleepy, time_limit=1.5), trials=6) == "trials"
        assert [trial.number for trial in made.trials if not trial.done] == [2]
        assert "time limit of 1.5 s" in made.trials[2].reason

    # --- what the tests are made of -----------------------------------------------------

    def made(self, evaluate: Evaluate, time_limit: float | None = None) -> Executor:
        """A fresh executor."""
        return executor_for(evaluate, self.workers, time_limit, name=self.name)

    def only_isolated(self) -> None:
        """Skip what would end this process."""
        if not self.isolated:
            pytest.skip("trials share the process of the search")


def study(folder: Path, *, space: TreeSpace | None = None, control: int = 0) -> Study:
    """An evolution that has several trials under way at once."""
    rules = Rules(window=_WINDOW, control=control)
    return Study.create(
        folder,
        space=space or toy_space(),
        objectives=_OBJECTIVES,
        strategy="evolution",
        seed=3,
        rules=rules,
    )


def archive(study: Study) -> list[dict[str, Any]]:
    """All of a study's trials that a repetition must give again."""
    return [{**vars(trial), "seconds": 0.0} for trial in study.trials]


# --- evaluators: at the top of a module, so that they can be handed to other processes ------------


def measured(job: Job) -> Mapping[str, float]:
    """Two numbers that follow from the decisions."""
    decisions = job.trial.decisions
    if "depth" in decisions:
        return toy_values(decisions)
    return {"error": 1 / decisions["width"], "speed": 1 / decisions["inner"]}


def troubled(job: Job) -> Mapping[str, float]:
    """Of ten trials one raises, one gives NaN, one forgets an objective, one gives no numbers."""
    found = dict(measured(job))
    match job.trial.number % 10:
        case 2:
            raise ValueError(f"trial {job.trial.number}\nwas not to its taste")
        case 4:
            found["error"] = float("nan")
        case 6:
            del found["speed"]
        case 8:
            return "nothing"  # type: ignore[return-value]
    return found


@dataclass
class Noted:
    """Leaves a line each time it evaluates.

    Args:
        path: Where.
        pause: Seconds that it takes.
    """

    path: Path
    pause: float = 0.0

    def __call__(self, job: Job) -> Mapping[str, float]:
        time.sleep(self.pause)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{job.trial.number}/{sorted(job.trial.decisions.items())}".replace(" ", ""))
            file.write("\n")
        return measured(job)


def deadly(job: Job) -> Mapping[str, float]:
    """Trial 3 kills its process each time, trial 5 the first time only."""
    job.folder.mkdir(parents=True, exist_ok=True)
    first = not (job.folder / "tried").exists()
    (job.folder / "tried").touch()
    if job.trial.number == 3 or (job.trial.number == 5 and first):
        os.kill(os.getpid(), signal.SIGKILL)
    return measured(job)


def sleepy(job: Job) -> Mapping[str, float]:
    """Trial 2 never ends."""
    if job.trial.number == 2:
        time.sleep(3600)
    return measured(job)
