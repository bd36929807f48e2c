"""The laws that every recipe must obey: a test case for plug-in authors to subclass.

from formwright.testing import RecipeTestCase

class TestMine(RecipeTestCase):
    name = "mine"                        # as announced; its preset ``smoke`` is run
    other = "training.steps=7"           # a hyperparameter that makes it another search

Clocks are replaced by counts, so that two runs agree to the last bit, whatever a recipe measures.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from formwright.errors import InputError
from formwright.recipes.life import begin, conduct
from formwright.recipes.recipe import Recipe, recipe
from formwright.recipes.reopen import recipe_of
from formwright.study import Ending, Study
from formwright.study.outcome import read_outcome
from formwright.testing.clock import counted_clock
from formwright.trial import Trial

# values that follow from a real clock
_CLOCKED = ("tokens_per_second", "step_seconds", "processor_share")


class RecipeTestCase:
    """Tests the life of one recipe: begun, stopped, killed, continued, ended."""

    name: ClassVar[str]
    preset: ClassVar[str] = "smoke"
    task: ClassVar[str] = ""
    changes: ClassVar[tuple[str, ...]] = ()  # hyperparameters to set, as typed after ``--set``
    other: ClassVar[str] = "training.steps=7"
    same: ClassVar[tuple[str, ...]] = ()  # files that must end the same to the byte, as patterns
    # When it is interrupted: as shares of the questions whether to stop, and of the renames.
    stops: ClassVar[tuple[float, ...]] = (0.0, 0.3, 0.6, 0.9)
    kills: ClassVar[tuple[float, ...]] = (0.3, 0.8)

    def made(self) -> Recipe:
        """The recipe under test."""
        return recipe(self.name, self.preset, task=self.task, changes=self.changes)

    def words(self) -> list[str]:
        """What is typed after ``formwright search`` for the same."""
        task = ["--task", self.task] if self.task else []
        settings = [word for change in self.changes for word in ("--set", change)]
        return [self.name, "--preset", self.preset, *task, *settings]

    # --- the laws -----------------------------------------------------------------------

    def test_it_runs_to_its_end(self, whole: "Run") -> None:
        study, outcome = Study.open(whole.folder), read_outcome(whole.folder)
        assert whole.ending in ("exhausted", "trials")
        assert outcome.headline
        assert outcome.baseline is not None
        assert {o.name for o in study.objectives} <= set(outcome.baseline.values)
        assert all(trial.finished for trial in study.trials)
        assert any(trial.done for trial in study.trials)

    def test_stopped_at_any_moment_it_goes_on_to_the_same_end(
        self, whole: "Run", tmp_path: Path
    ) -> None:
        for share in self.stops:
            run = Run(self.made(), tmp_path, stop_after=int(share * whole.asked))
            assert run.wishes <= 2, "it goes on when it is asked to stop"
            if run.wishes:
                assert run.ending == "stopped"
                assert not read_outcome(tmp_path).headline
        self.assert_same_end(Run(self.made(), tmp_path), whole)

    def test_killed_it_goes_on_to_the_same_end(self, whole: "Run", tmp_path: Path) -> None:
        if not self.kills:
            pytest.skip("it is not to be killed")
        folder = tmp_path / "run"
        for before, share in pairwise((0.0, *self.kills)):
            renames = int((share - before) * len(whole.renames))
            killed(["search", *self.words()], folder, renames)
            assert not read_outcome(folder).headline
        self.assert_same_end(Run(self.made(), folder), whole)

    def test_at_its_end_it_does_nothing_more(self, whole: "Run") -> None:
        before, times = self.left(whole.folder), _times(whole.folder)
        again = Run(self.made(), whole.folder)
        assert again.ending != "stopped"
        assert again.said == []
        assert self.left(whole.folder) == before
        assert _times(whole.folder) == times

    def test_another_one_is_refused_in_the_same_folder(self, whole: "Run") -> None:
        begin(self.made(), whole.folder).close()
        name = self.other.partition("=")[0]
        others = {"seed": replace(self.made(), seed=1), name: self.made().with_setting(self.other)}
        for what, other in others.items():
            with pytest.raises(InputError, match=f"holds another search: its {what} is") as refused:
                begin(other, whole.folder)
            assert len(str(refused.value).splitlines()) == 1

    def test_it_is_found_again_from_its_study(self, whole: "Run") -> None:
        made, found = self.made(), recipe_of(Study.open(whole.folder))
        assert type(found) is type(made)
        assert (found.name, found.task, found.seed) == (made.name, made.task, made.seed)
        assert found.hyperparameters() == made.hyperparameters()

    def test_its_hyperparameters_are_plain_json(self) -> None:
        found = self.made().hyperparameters()
        assert json.loads(json.dumps(found, allow_nan=False)) == found

    # --- what the tests are made of -----------------------------------------------------

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _clock(cls) -> Iterator[None]:
        with counted_clock():
            yield

    @pytest.fixture(scope="class")
    @classmethod
    def whole(cls, tmp_path_factory: pytest.TempPathFactory, _clock: None) -> "Run":
        """A run that nothing interrupts."""
        return Run(cls().made(), tmp_path_factory.mktemp("whole"))

    def assert_same_end(self, run: "Run", whole: "Run") -> None:
        """What one run has left is what another one has."""
        assert run.ending != "stopped"
        ours, theirs = self.left(run.folder), self.left(whole.folder)
        for part, expected in theirs.items():
            assert ours[part] == expected, f"{part}: {ours[part]} in place of {expected}"

    def left(self, folder: Path) -> dict[str, Any]:
        """All that must be the same however often a recipe was interrupted."""
        study, outcome = Study.open(folder), asdict(read_outcome(folder))
        for rival in (outcome["baseline"], *outcome["rivals"]):
            for values in (rival["values"], *rival["rungs"].values()):
                _unclock(values)
        outcome["notes"] = [note for note in outcome["notes"] if "processor" not in note]
        trials = [_unclock_trial(trial) for trial in study.trials]
        study.close()
        paths = {
            path for mark in ("**/model.safetensors", *self.same) for path in folder.glob(mark)
        }
        files = {
            str(path.relative_to(folder)): _digest(path)
            for path in sorted(paths)
            if not _is_overtaken(path.parent)
        }
        return {"outcome": outcome, "trials": trials, "files": files}


class Run:
    """One call of a recipe, as far as it came.

    Args:
        recipe: What is run.
        folder: Of its study.
        stop_after: Questions after which the answer is to stop.
    """

    def __init__(self, recipe: Recipe, folder: Path, stop_after: int | None = None) -> None:
        self.folder, self.stop_after = folder, stop_after
        self.asked, self.wishes = 0, 0
        self.said: list[str] = []
        with counted_renames(folder) as self.renames:
            study = begin(recipe, folder)
            self.ending: Ending = conduct(recipe, study, stop=self.stop, say=self.said.append)
        study.close()

    def stop(self) -> bool:
        """Whether to stop; it counts how often it is asked, and how often it says yes."""
        self.asked += 1
        wish = self.stop_after is not None and self.asked > self.stop_after
        self.wishes += wish
        return wish


@contextmanager
def counted_renames(folder: Path, die_at: int | None = None) -> Iterator[list[str]]:
    """Note every file or folder that gets its name below a folder: the moments when work is kept.

    Args:
        folder: Of a study.
        die_at: How many there may be; this process is killed before the next.
    """
    names: list[str] = []

    def counted(rename: Callable[..., None], source: Any, goal: Any, **more: Any) -> None:
        if Path(goal).is_relative_to(folder):
            if len(names) == die_at:
                os.kill(os.getpid(), signal.SIGKILL)
            names.append(str(goal))
        rename(source, goal, **more)

    with (
        patch.object(os, "replace", partial(counted, os.replace)),
        patch.object(os, "rename", partial(counted, os.rename)),
    ):
        yield names


def killed(words: list[str], folder: Path, renames: int) -> None:
    """Run a command in a process of its own, which is killed after so many renames in a folder."""
    program = "from formwright.testing.recipes import die; die()"
    argv = [sys.executable, "-c", program, str(renames), *words, "--json", "--out", str(folder)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, check=False)  # noqa: S603  # ourselves
    assert done.returncode == -signal.SIGKILL, done.stderr or "it ended before it could be killed"


def die() -> None:
    """The command line, in a process that is killed; see ``killed``."""
    from formwright.cli.main import main  # noqa: PLC0415  # it is for this process alone

    renames, folder = int(sys.argv.pop(1)), Path(sys.argv[-1])
    with counted_clock(), counted_renames(folder, renames):
        main()


def _unclock(values: dict[str, float]) -> None:
    for name in _CLOCKED:
        values.pop(name, None)


def _unclock_trial(trial: Trial) -> Trial:
    values = {name: value for name, value in trial.values.items() if name not in _CLOCKED}
    return replace(trial, values=values, seconds=0.0)


def _is_overtaken(folder: Path) -> bool:
    """Whether it holds a checkpoint, and a newer one lies beside it: a stop decides at which step
    that was made."""
    name = folder.name
    return name.startswith("checkpoint-") and name < max(
        place.name for place in folder.parent.glob("checkpoint-*")
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _times(folder: Path) -> dict[Path, int]:
    kinds = (".json", ".jsonl", ".safetensors")
    return {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.suffix in kinds}
