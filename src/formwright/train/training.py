"""The training of one model: its steps, looks at the validation set, the score at the end.

The same command given again continues a run or, when it has ended, gives its result.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from formwright.arch import Architecture
from formwright.errors import Stopped
from formwright.model import Model, build, load_model, save_model
from formwright.model.card import new_card
from formwright.ops.past import Past
from formwright.train.config import TrainConfig
from formwright.train.data import Task
from formwright.train.device import device_of_text
from formwright.train.distributed import join_world, own_device
from formwright.train.engine import Engine, Loss
from formwright.train.loop import Loop, OnProgress
from formwright.train.run import MODEL, RunFolder, has_checkpoint


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
    step_seconds: float = 0.0  # of a processor, for one step
    processor_share: float = 0.0  # how much of one the steps got, in all threads

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
    device = own_device(device_of_text(device))
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
    weights: dict[str, Tensor] | None = None  # of the best look, where they are kept

    def result(self) -> Result:
        """From the last checkpoint, or the beginning, to the end."""
        ended = self.folder.result() if self.folder is not None else None
        if ended is not None and self.folder is not None and not has_checkpoint(self.folder.path):
            self.take_model(self.folder.path / MODEL)
        else:
            self.resume()
        if ended is None:
            return self.end(*self.run())
        self.best_model()
        return Result(**{k: v for k, v in ended.items() if k != "tokens_per_second"})

    def take_model(self, folder: Path) -> None:
        """The weights that an ended run left, its checkpoints being gone."""
        if folder.exists():
            self.engine.whole_model().load_state_dict(load_model(folder).state_dict())

    def end(self, state: Any, reason: str) -> Result:
        """Score the trained model and write down the result."""
        if state != "interrupted":
            self.save()  # the last weights, before the best take their place
        model = self.engine.whole_model()
        scores: dict[str, float] = {}
        scored = self.config.score_batches != 0
        if state == "finished":
            model = self.best_model()
            if scored:
                state, reason, scores = self.final_scores(model, reason)
        metric = self.engine.task.metric
        result = Result(
            state,
            reason,
            metric,
            scores.get(metric),
            scores.get("loss"),
            self.engine.number,
            self.seconds(),
            self.engine.tokens * self.world.size,
            scores,
            self.pace.processor / max(1, self.pace.steps),
            self.pace.processor / max(1e-9, self.pace.wall),
        )
        if self.folder is not None and self.folder.leads and state != "interrupted":
            if state == "finished" and scored:
                self.keep(model, scores)
            self.folder.finish(result.to_data())
        self.on_event({"kind": "end", **result.to_data()})
        return result

    def keep(self, model: Model, scores: dict[str, float]) -> None:
        """Write the model with all that it takes to use it."""
        assert self.folder is not None
        engine, config = self.engine, self.config
        reading = getattr(engine.task, "reading", lambda: None)()  # not every task can say
        trained = {
            "task": engine.task.name,
            "steps": engine.number,
            "seconds": round(self.seconds(), 1),
            "tokens": engine.tokens * self.world.size,
            "seed": config.seed,
            "rate": config.lr,
        }
        save_model(
            model,
            self.folder.path / MODEL,
            task=None if reading is None else reading.to_data(),
            card=new_card(engine.task.metric, scores, trained),
        )

    def final_scores(self, model: Model, reason: str) -> tuple[Any, str, dict[str, float]]:
        """How a run that took all its steps ended, why, and its scores."""
        try:
            heeding = {} if self.stop is None else {"stop": self.stop}
            scores = self.score(model, self.config.score_batches, **heeding)
        except Stopped:  # all steps are taken; only the scores are missing
            return "interrupted", "stopped by the caller", {}
        bad = [name for name, value in scores.items() if not math.isfinite(value)]
        if bad:
            return "diverged", f"{', '.join(bad)} is not a number", {}
        return "finished", reason, scores

    def best_model(self) -> Model:
        """The model with the weights of the best look, where they are kept, else the last ones."""
        model = self.engine.whole_model()
        if self.weights is not None:
            model.load_state_dict(self.weights)
        return model

    @property
    def gave_up(self) -> bool:
        """Whether too many looks found nothing better."""
        return 0 < self.config.patience <= self.best[1]

    def over(self) -> str:
        given_up = f"no better metric for {self.config.patience} looks" if self.gave_up else ""
        return super().over() or given_up

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
        model = self.engine.whole_model()
        scores = self.score(model, self.config.valid_batches)
        value = scores[task.metric]
        better = best is None or (value > best if task.higher_is_better else value < best)
        better = better and math.isfinite(value)
        self.best = (value, 0) if better else (best, waited + 1)
        if better and self.config.keep_best:
            self.weights = {name: t.clone() for name, t in model.state_dict().items()}
        self.say({"kind": "scores", "step": self.engine.number, **scores})
        return self.gave_up

    def _remembered(self) -> int | Past | None:
        """What is remembered between batches of a score."""
        config = self.config
        if not config.memory:
            return None
        most = config.score_memory or config.memory
        return Past(most, clamp=config.score_clamp) if config.score_clamp else most

    def score(self, model: Model, limit: int | None, **heeding: Any) -> dict[str, float]:
        """On the validation set; a task of the user's own need not heed a ``stop``."""
        return self.engine.task.score(
            model,
            "valid",
            batch_tokens=self.config.batch_tokens,
            memory=self._remembered(),
            limit=limit,
            **heeding,
        )

    def state(self) -> dict[str, Any]:
        return {**super().state(), "best": self.best}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.best = tuple(state["best"])

    def kept(self) -> dict[str, dict[str, Tensor]]:
        return {} if self.weights is None else {"best": self.weights}

    def restore_kept(self, tensors: dict[str, dict[str, Tensor]]) -> None:
        self.weights = tensors.get("best")
