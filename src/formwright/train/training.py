"""The training of one model: its steps, looks at the validation set, the score at the end.

The same command given again continues a run or, when it has ended, gives its result.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch

from formwright.arch import Architecture
from formwright.errors import Stopped
from formwright.model import Model, build, save_model
from formwright.train.config import TrainConfig
from formwright.train.data import Task
from formwright.train.distributed import join_world
from formwright.train.engine import Engine, Loss
from formwright.train.loop import Loop, OnProgress
from formwright.train.run import RunFolder


@dataclass(frozen=True)
class Result:
    """How a run ended.

    ``diverged`` is a verdict, not an error: the loss or a gradient stopped being a number, or the
    loss grew far beyond where it began. ``interrupted`` runs can be continued.
    """

    state: Literal["finished", "diverged", "interrupted"]
    reason: str
    metric: str
    value: float | None
    loss: float | None
    steps: int
    seconds: float
    tokens: int
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def tokens_per_second(self) -> float:
        """Real tokens read per second of training."""
        return self.tokens / self.seconds if self.seconds else 0.0

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "tokens_per_second": self.tokens_per_second}


def train(
    what: Architecture | Model,
    task: Task,
    config: TrainConfig,
    *,
    out: str | Path | None = None,
    device: torch.device | str = "cpu",
    on_event: OnProgress | None = None,
    stop: Callable[[], bool] | None = None,
    loss: Loss | None = None,
) -> tuple[Model, Result]:
    """Train a model on a task.

    Args:
        what: An architecture, built with the seed's initial weights, or a model to go on from.
        task: Data, loss and metric.
        config: Every number of the run.
        out: Folder of the run; without one nothing is written and nothing can be resumed.
        device: Where to train.
        on_event: Called with what happens: steps, scores, faults.
        stop: Asked after each step and each batch that is scored; True interrupts the run. Without
            it, signals that end a program do.
        loss: In place of the task's, as of ``Engine``.
    """
    device = torch.device(device)
    world = join_world(device)
    model = _model(what, task, config).to(device)
    folder = None
    if out is not None:
        folder = RunFolder(Path(out), model.arch, task.name, config, leads=world.leads)
    try:
        engine = Engine(model, task, config, device, world, loss=loss)
        return model, _Training(engine, folder, on_event, stop).result()
    finally:
        if folder is not None:
            folder.close()


def _model(what: Architecture | Model, task: Task, config: TrainConfig) -> Model:
    if isinstance(what, Model):
        return what
    arch = what.fitted(task.frame).check()
    return build(
        arch,
        seed=config.seed,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
    )


class _Training(Loop):
    """The loop of a plain model, which is scored."""

    best: tuple[float | None, int] = (None, 0)  # metric, and looks since

    def result(self) -> Result:
        """From the last checkpoint, or the beginning, to the end."""
        self.resume()
        ended = self.folder.result() if self.folder is not None else None
        if ended is None:
            return self.end(*self.run())
        self.engine.whole_model()
        return Result(**{k: v for k, v in ended.items() if k != "tokens_per_second"})

    def end(self, state: Any, reason: str) -> Result:
        """Score the trained model and write down the result."""
        model, task = self.engine.whole_model(), self.engine.task
        saved, scores = state == "interrupted", {}
        if state == "finished":
            try:
                heeding = {} if self.stop is None else {"stop": self.stop}
                scores = self.score(model, self.config.score_batches, **heeding)
            except Stopped:  # all steps are taken; only the scores are missing
                state, reason = "interrupted", "stopped by the caller"
            bad = [name for name, value in scores.items() if not math.isfinite(value)]
            if bad:
                state, reason, scores = "diverged", f"{', '.join(bad)} is not a number", {}
        result = Result(
            state,
            reason,
            task.metric,
            scores.get(task.metric),
            scores.get("loss"),
            self.engine.number,
            self.seconds(),
            self.engine.tokens * self.world.size,
            scores,
        )
        if not saved:
            self.save()
        if self.folder is not None and self.folder.leads and state != "interrupted":
            if state == "finished":
                save_model(model, self.folder.path / "model")
            self.folder.finish(result.to_data())
        self.on_event({"kind": "end", **result.to_data()})
        return result

    def look(self, loss: float, gradient: float) -> None:
        engine, seconds = self.engine, self.seconds()
        self.say(
            {
                "kind": "step",
                "step": engine.number,
                "loss": loss,
                "gradient": gradient,
                "rate": engine.rate(),
                "seconds": seconds,
                "tokens_per_second": engine.tokens * self.world.size / max(seconds, 1e-9),
                "progress": engine.progress(),
            }
        )

    def evaluate(self) -> bool:
        task, (best, waited) = self.engine.task, self.best
        scores = self.score(self.engine.whole_model(), self.config.valid_batches)
        value = scores[task.metric]
        better = best is None or (value > best if task.higher_is_better else value < best)
        self.best = (value, 0) if better else (best, waited + 1)
        self.say({"kind": "scores", "step": self.engine.number, **scores})
        return bool(self.config.patience) and self.best[1] >= self.config.patience

    def score(self, model: Model, limit: int | None, **heeding: Any) -> dict[str, float]:
        """On the validation set; a task of the user's own need not heed a ``stop``."""
        return self.engine.task.score(
            model,
            "valid",
            batch_tokens=self.config.batch_tokens,
            memory=self.config.memory or None,
            limit=limit,
            **heeding,
        )

    def state(self) -> dict[str, Any]:
        return {**super().state(), "best": self.best}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.best = tuple(state["best"])
