"""Quality by training: for so many steps or seconds, in stages that continue one another."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from formwright.arch import Architecture
from formwright.estimate.base import Diverged, Estimator, Work
from formwright.model import Model
from formwright.tasks import Task, load_task
from formwright.train import TrainConfig, train

known_task = lru_cache(maxsize=4)(load_task)  # read once per process, not once per trial


@dataclass(frozen=True)
class Training(Estimator):
    """Train on a task and give its validation scores.

    Stage 0 trains for the steps of ``config``, stage r for ``eta**r`` times as many, going on
    from the checkpoint of the stage before. The rate is held constant after the warm-up where
    there are stages, since a schedule that ends would have to be begun anew.

    Args:
        task: Name of the task.
        config: Every number of the first stage.
        eta: How many times longer each stage is than the one before.
        rungs: Stages that there are; a trial of the last one is never continued.
        keep: Keep the model of the last stage in the trial's folder.
        device: Where to train.
    """

    task: str
    config: TrainConfig
    eta: int = 3
    rungs: int = 1
    keep: bool = True
    device: str = "cpu"

    def __call__(self, work: Work) -> Mapping[str, float]:
        config = self.stage(work.trial.rung).replace(seed=work.seed)
        folder = work.folder / "run"
        if work.previous is not None and not folder.exists():
            _inherit(work.previous / "run", folder)
        task: Task = known_task(self.task)
        # Work in the caller's own process may say when to stop.
        stop = getattr(work, "stop", None)
        begun = self.begun(work, task)
        _, result = train(begun, task, config, out=folder, device=self.device, stop=stop)
        if result.state == "interrupted":
            raise KeyboardInterrupt
        self._tidy(folder, last=work.trial.rung >= self.rungs - 1)
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
        """Keep what can still be of use: of the last stage the model, of others the checkpoint."""
        if not self.keep:
            shutil.rmtree(folder, ignore_errors=True)
        for spent in folder.glob("checkpoint-*" if last else "model"):
            shutil.rmtree(spent, ignore_errors=True)

    def stage(self, rung: int) -> TrainConfig:
        """The numbers of one stage; its last checkpoint is its end."""
        times = self.eta**rung
        steps = self.config.steps * times if self.config.steps is not None else None
        seconds = self.config.seconds * times if self.config.seconds is not None else None
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
