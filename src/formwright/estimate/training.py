"""Quality by training: for so many steps or seconds, in stages that continue one another."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from formwright.arch import Architecture
from formwright.errors import Stopped
from formwright.estimate.base import Diverged, Estimator, Work
from formwright.model import Model
from formwright.tasks import Task, load_task
from formwright.train import TrainConfig, train
from formwright.trial import Trial

known_task = lru_cache(maxsize=4)(load_task)  # read once per process, not once per trial


@dataclass(frozen=True)
class Training(Estimator):
    """Train on a task and give its validation scores.

    A trial says for how many steps (or seconds) it is trained in all, and goes on from the
    checkpoint of the one it continues; where it says nothing, the numbers of ``config`` hold. Where
    trials are continued the schedule should be constant, since one that ends would have to be
    begun anew.

    Args:
        task: Name of the task.
        config: Every number of the training.
        last: The rung after which a trial is never continued.
        keep: Keep the model of such a trial in its folder.
        device: Where to train.
    """

    task: str
    config: TrainConfig
    last: int = 0
    keep: bool = True
    device: str = "cpu"

    def __call__(self, work: Work) -> Mapping[str, float]:
        config = self.fidelity(work.trial).replace(seed=work.seed)
        folder = work.folder / "run"
        if work.previous is not None and not folder.exists():
            _inherit(work.previous / "run", folder)
        task: Task = known_task(self.task)
        # Work in the caller's own process may say when to stop.
        stop = getattr(work, "stop", None)
        begun = self.begun(work, task)
        _, result = train(begun, task, config, out=folder, device=self.device, stop=stop)
        if result.state == "interrupted":
            raise KeyboardInterrupt if stop is None else Stopped
        self._tidy(folder, last=work.trial.rung >= self.last)
        if result.state == "diverged":
            raise Diverged(f"training diverged: {result.reason}")
        return {
            **result.scores,
            "steps": float(result.steps),
            "tokens_per_second": result.tokens_per_second,
        }

    def begun(self, work: Work, task: Task) -> Architecture | Model:
        """What is trained: the architecture, from new weights."""
        arch: Architecture = work.arch.fitted(task.frame)
        return arch

    def _tidy(self, folder: Path, *, last: bool) -> None:
        """Keep what can still be of use: of the last rung the model, of others the checkpoint."""
        if not self.keep:
            shutil.rmtree(folder, ignore_errors=True)
        for spent in folder.glob("checkpoint-*" if last else "model"):
            shutil.rmtree(spent, ignore_errors=True)

    def fidelity(self, trial: Trial) -> TrainConfig:
        """The numbers of one trial; its last checkpoint is its end."""
        steps, seconds = trial.steps, trial.train_seconds
        if steps is None and seconds is None:
            steps, seconds = self.config.steps, self.config.seconds
        every = min(self.config.checkpoint_every, steps or self.config.checkpoint_every)
        return self.config.replace(steps=steps, seconds=seconds, checkpoint_every=every)


def _inherit(before: Path, folder: Path) -> None:
    """Take over the last checkpoint of an earlier stage, all of it or nothing."""
    checkpoints = sorted(before.glob("checkpoint-*"))
    if not checkpoints:
        return
    partial = folder.with_name("inheriting")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(checkpoints[-1], partial / checkpoints[-1].name)
    partial.rename(folder)
