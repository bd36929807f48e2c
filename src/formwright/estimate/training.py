"""Quality by training: for so many steps or seconds, in stages that continue one another."""

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from formwright.arch import Architecture
from formwright.errors import InputError, Stopped
from formwright.estimate.base import Diverged, Estimator, Work
from formwright.estimate.known import known_task
from formwright.files import write_atomically
from formwright.model import Model
from formwright.tasks import Task
from formwright.train import Result, TrainConfig, rate_for, train
from formwright.train.engine import Loss
from formwright.trial import Trial

__all__ = ["Training", "inherit", "known_task"]  # tasks were known here first


@dataclass(frozen=True)
class Training(Estimator):
    """Train on a task and give its validation scores.

    A trial says for how many steps (or seconds) it is trained in all, and goes on from the
    checkpoint of the one it continues; where it says nothing, the numbers of ``config`` hold. Where
    trials are continued the schedule should be constant, since one that ends would have to be
    begun anew.

    Beside the scores it gives ``steps``, ``tokens_per_second``, ``step_seconds`` (of a processor,
    for one step, so that it does not depend on what else runs), ``processor_share`` (how much of a
    processor the steps got) and ``slope``: how many nats the training loss fell when the steps
    doubled, over the second half of the steps so far; it is not there where too little was logged.

    Args:
        task: Name of the task.
        config: Every number of the training.
        last: The rung after which a trial is never continued.
        keep: Keep the model of such a trial in its folder.
        device: Where to train.
        fair: The rate of ``config`` is for a model 128 wide with 8 sub-layers; each gets its own.
        cooldown: Judge a trial after so many more steps, as a share of those it has taken, over
            which the rate falls to zero. Trials that continue it go on from before them, so the
            schedule must be constant. ``steps`` does not count them; ``cooldown_steps`` does.
    """

    task: str
    config: TrainConfig
    last: int = 0
    keep: bool = True
    device: str = "cpu"
    fair: bool = False
    cooldown: float = 0.0

    def __post_init__(self) -> None:
        if self.cooldown < 0:
            raise InputError(f"cooldown={self.cooldown} must be a share of the steps, 0 or more.")
        if self.cooldown and self.config.schedule != "constant":
            raise InputError(
                f"A cool-down begins where the rate is constant; schedule="
                f"{self.config.schedule!r} has a fall of its own. Use constant, or no cool-down."
            )

    def __call__(self, work: Work) -> Mapping[str, float]:
        task: Task = known_task(self.task)
        folder = work.folder / "run"
        if work.previous is not None and not folder.exists():
            inherit(work.previous / "run", folder)
        values = _read(folder / "values.json")
        if values is None:
            values = self._values(work, task, folder)
            if self.cooldown:  # the branch, which has the scores, is deleted next
                write_atomically(folder / "values.json", json.dumps(values).encode())
        self._tidy(folder, last=work.trial.rung >= self.last)
        return values

    def begun(self, work: Work, task: Task) -> Architecture | Model:
        """What is trained: the architecture, from new weights."""
        arch: Architecture = work.arch.fitted(task.frame)
        return arch

    def loss(self, work: Work, task: Task) -> Loss | None:
        """What is made small in place of the task's loss; None for that."""
        return None

    def fidelity(self, trial: Trial) -> TrainConfig:
        """The numbers of one trial; its last checkpoint is its end."""
        steps, seconds = trial.steps, trial.train_seconds
        if steps is None and seconds is None:
            steps, seconds = self.config.steps, self.config.seconds
        every = min(self.config.checkpoint_every, steps or self.config.checkpoint_every)
        return self.config.replace(steps=steps, seconds=seconds, checkpoint_every=every)

    def _values(self, work: Work, task: Task, folder: Path) -> dict[str, float]:
        """Train, cool down where asked, and gather what is known of it."""
        config = self.fidelity(work.trial).replace(seed=work.seed)
        if self.fair:
            config = config.replace(lr=rate_for(work.arch, config.lr))
        # Work in the caller's own process may say when to stop.
        stop = getattr(work, "stop", None)
        trunk = config.replace(score_batches=0) if self.cooldown else config
        heard: dict[str, Any] = {"stop": stop, "loss": self.loss(work, task)}
        model, result = self._train(self.begun(work, task), task, trunk, folder, **heard)
        more = {"steps": float(result.steps)}
        if self.cooldown:
            branch, taken = folder.with_name("branch"), result.steps
            if not branch.exists():
                inherit(folder, branch)
            config = cooled(config, taken, math.ceil(self.cooldown * taken))
            _, result = self._train(model, task, config, branch, **heard)
            more["cooldown_steps"] = float(result.steps - taken)
        slope = slope_of(folder, int(more["steps"]))
        return {
            **result.scores,
            **more,
            "tokens_per_second": result.tokens_per_second,
            "step_seconds": result.step_seconds,
            "processor_share": result.processor_share,
            **({} if slope is None else {"slope": slope}),
        }

    def _train(
        self,
        what: Architecture | Model,
        task: Task,
        config: TrainConfig,
        folder: Path,
        *,
        stop: Callable[[], bool] | None,
        loss: Loss | None,
    ) -> tuple[Model, Result]:
        """Train to the end, or raise what kept it from there."""
        about: dict[str, Any] = {"out": folder, "device": self.device, "stop": stop, "loss": loss}
        model, result = train(what, task, config, **about)
        if result.state == "interrupted":
            raise KeyboardInterrupt if stop is None else Stopped
        if result.state == "diverged":
            for spent in folder.parent.glob("*/checkpoint-*"):
                shutil.rmtree(spent, ignore_errors=True)
            raise Diverged(f"training diverged: {result.reason}")
        return model, result

    def _tidy(self, folder: Path, *, last: bool) -> None:
        """Keep what can still be of use: of the last rung the model, of others the checkpoint."""
        branch = folder.with_name("branch")
        if last and (branch / "model").exists():
            (branch / "model").rename(folder / "model")
        shutil.rmtree(branch, ignore_errors=True)
        if not self.keep:
            shutil.rmtree(folder, ignore_errors=True)
        for spent in folder.glob("checkpoint-*" if last else "model"):
            shutil.rmtree(spent, ignore_errors=True)


def cooled(config: TrainConfig, taken: int, more: int) -> TrainConfig:
    """The numbers of a branch: so many more steps after those taken, the rate falling to zero."""
    steps = taken + more
    return config.replace(
        steps=steps, seconds=None, schedule="wsd", cooldown=more / steps, lr_end=0.0
    )


def slope_of(run: Path, steps: int) -> float | None:
    """How many nats the training loss fell per doubling of steps, over the second half of them.

    A line through the losses that the run logged, over the logarithm of the step; each is a mean
    since the one before it, and one over few steps, as the last is, is joined with the one before.
    Where fewer than two lie in that half, the last two are taken; None where the log has no two.
    """
    lines = [line for line in read_log(run) if line["kind"] == "step"]
    if len(lines) < 2:
        return None
    ends = [line["step"] for line in lines]
    starts = [max(0, 2 * ends[0] - ends[1]), *ends[:-1]]  # the log of a promoted trial begins late
    spans = [
        (start, end, line["loss"]) for start, end, line in zip(starts, ends, lines, strict=True)
    ]
    spans = _joined(spans)
    if len(spans) < 2:
        return None
    middles = [(start + end) / 2 for start, end, _ in spans]
    first = min(sum(middle < steps / 2 for middle in middles), len(spans) - 2)
    losses = [loss for _, _, loss in spans[first:]]
    return -float(np.polyfit(np.log2(middles[first:]), losses, 1)[0])


def _joined(spans: Sequence[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    """Means over steps from and to; those over less than half of the longest go with the last."""
    least = max(end - start for start, end, _ in spans) / 2
    found: list[tuple[int, int, float]] = []
    for start, end, mean in spans:
        if found and end - start < least:
            (began, _, other), new = found.pop(), end - start
            joined = (other * (start - began) + mean * new) / (end - began)
            found.append((began, end, joined))
        else:
            found.append((start, end, mean))
    return found


def read_log(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's log."""
    path = run / "log.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _read(path: Path) -> dict[str, float] | None:
    found: dict[str, float] | None = json.loads(path.read_bytes()) if path.exists() else None
    return found


def inherit(before: Path, folder: Path) -> None:
    """Take over the last checkpoint of an earlier stage, all of it or nothing."""
    checkpoints = sorted(before.glob("checkpoint-*"))
    if not checkpoints:
        return
    partial = folder.with_name("inheriting")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(checkpoints[-1], partial / checkpoints[-1].name)
    partial.rename(folder)
