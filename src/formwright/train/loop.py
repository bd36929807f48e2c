"""The training loop: one for every kind of model, resumable to the bit.

A run in a folder continues where its last good checkpoint stands; the same command given again
either continues or, when the run has ended, gives its result. Loss and gradient are looked at
every few steps, never at each, so that the machine does not wait for a number to be read.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Literal

import torch
from torch import Tensor

from formwright.arch import Architecture
from formwright.errors import Stopped, StorageError
from formwright.model import Model, build, save_model
from formwright.train.checkpoint import read_latest, write_checkpoint
from formwright.train.config import TrainConfig
from formwright.train.data import Task
from formwright.train.distributed import agreed, join_world
from formwright.train.engine import Engine
from formwright.train.run import RunFolder
from formwright.train.schedule import rate

OnEvent = Callable[[dict[str, Any]], None]


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
    on_event: OnEvent | None = None,
    stop: Callable[[], bool] | None = None,
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
    """
    device = torch.device(device)
    world = join_world(device)
    model = _model(what, task, config).to(device)
    folder = None
    if out is not None and world.leads:
        folder = RunFolder(Path(out), model.arch, task.name, config)
    try:
        engine = Engine(model, task, config, device, world)
        loop = _Loop(engine, folder, Path(out) if out is not None else None, on_event, stop)
        return model, loop.run()
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


class _Loop:
    def __init__(
        self,
        engine: Engine,
        folder: RunFolder | None,
        path: Path | None,
        on_event: OnEvent | None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.engine, self.folder, self.path = engine, folder, path
        self.config, self.world = engine.config, engine.world
        self.on_event = on_event or (lambda event: None)
        self.stop = stop
        self.step = 0
        self.before = 0.0  # seconds of earlier sessions
        self.started = time.perf_counter()
        self.first_loss: float | None = None
        self.best: dict[str, Any] = {"value": None, "step": 0, "waited": 0}
        self.window = _Window(engine.device)

    # --- the run ------------------------------------------------------------------------

    def run(self) -> Result:
        """From the last checkpoint, or the beginning, to the end."""
        ended = self.folder.result() if self.folder is not None else None
        if self.path is not None:
            self.resume()
        if ended is not None:
            return Result(**{k: v for k, v in ended.items() if k != "tokens_per_second"})
        try:
            with _stop_signals() if self.stop is None else nullcontext(_Stop()) as stop:
                verdict = self.train_until_end(stop)
        finally:
            self.engine.close()
        return self.end(*verdict)

    def train_until_end(self, stop: "_Stop") -> tuple[str, str]:
        """The steps; gives the state and the reason of the end."""
        while True:
            if self.progress() >= 1:
                fault = self.look()
                return ("diverged", fault) if fault else ("finished", "all steps were taken")
            loss, norm = self.engine.step(self.step, self.rate())
            self.step += 1
            self.window.add(loss, norm)
            due = self.step % self.config.log_every == 0
            saves = self.step % self.config.checkpoint_every == 0
            looks = bool(self.config.evaluate_every) and (
                self.step % self.config.evaluate_every == 0
            )
            if self.stop is not None and self.stop():
                stop.asked, stop.name = True, "the caller"
            stopped = agreed(stop.asked, self.world, self.engine.device)
            if due or saves or looks or stopped:
                fault = self.look()
                if fault:
                    return "diverged", fault
            if looks and self.evaluate():
                return "finished", f"no better metric for {self.config.patience} looks"
            if saves or stopped:
                self.save()
            if stopped:
                return "interrupted", f"stopped by {stop.name}"

    def end(self, state: Any, reason: str) -> Result:
        """Score the trained model and write down the result."""
        model, task = self.engine.whole_model(), self.engine.task
        scores: dict[str, float] = {}
        if state == "finished":
            try:
                scores = self.score(model, self.config.score_batches, self.stop)
            except Stopped:
                state, reason = "interrupted", "stopped by the caller"
                self.save()  # all steps are taken; only the scores are missing
            bad = [name for name, value in scores.items() if not math.isfinite(value)]
            if bad:
                state, reason, scores = "diverged", f"{', '.join(bad)} is not a number", {}
        result = Result(
            state,
            reason,
            task.metric,
            scores.get(task.metric),
            scores.get("loss"),
            self.step,
            self.seconds(),
            self.engine.tokens * self.world.size,
            scores,
        )
        if state != "interrupted":
            self.save()
        if self.folder is not None and state != "interrupted":
            if state == "finished":
                save_model(model, self.folder.path / "model")
            self.folder.finish(result.to_data())
        self.on_event({"kind": "end", **result.to_data()})
        return result

    # --- looking ------------------------------------------------------------------------

    def look(self) -> str:
        """Read the numbers of the last steps; the reason to stop, if there is one."""
        if not self.window.count:
            return ""
        loss, norm = self.window.read()
        fault = divergence(loss, self.first_loss, self.step, norm)
        if fault:
            return fault
        if self.first_loss is None:
            self.first_loss = loss
        seconds = self.seconds()
        event = {
            "kind": "step",
            "step": self.step,
            "loss": loss,
            "gradient": norm,
            "rate": self.rate(),
            "seconds": seconds,
            "tokens_per_second": self.engine.tokens * self.world.size / max(seconds, 1e-9),
            "progress": self.progress(),
        }
        self.say(event)
        return ""

    def evaluate(self) -> bool:
        """Look at the validation set; whether patience has run out."""
        task = self.engine.task
        scores = self.score(self.engine.whole_model(), self.config.valid_batches)
        value, best = scores[task.metric], self.best["value"]
        better = best is None or (value > best if task.higher_is_better else value < best)
        if better:
            self.best = {"value": value, "step": self.step, "waited": 0}
        else:
            self.best["waited"] += 1
        self.say({"kind": "scores", "step": self.step, **scores})
        return bool(self.config.patience) and self.best["waited"] >= self.config.patience

    def score(
        self, model: Model, limit: int | None = None, stop: Callable[[], bool] | None = None
    ) -> dict[str, float]:
        # a task of the user's own need not know of it
        heeding: dict[str, Any] = {} if stop is None else {"stop": stop}
        return self.engine.task.score(
            model,
            "valid",
            batch_tokens=self.config.batch_tokens,
            memory=self.config.memory or None,
            limit=limit,
            **heeding,
        )

    def say(self, event: dict[str, Any]) -> None:
        if self.folder is not None:
            self.folder.log(event)
        self.on_event(event)

    # --- where the run stands -----------------------------------------------------------

    def seconds(self) -> float:
        return self.before + time.perf_counter() - self.started

    def progress(self) -> float:
        by_steps = self.step / self.config.steps if self.config.steps else 0.0
        by_time = self.seconds() / self.config.seconds if self.config.seconds else 0.0
        return max(by_steps, by_time)

    def rate(self) -> float:
        return rate(self.config, self.step, self.progress())

    # --- saving and resuming ------------------------------------------------------------

    def save(self) -> None:
        state = {"seconds": self.seconds(), "first_loss": self.first_loss, "best": self.best}
        checkpoint = self.engine.checkpoint(self.step, state)
        if self.folder is not None:
            write_checkpoint(self.folder.path, checkpoint)

    def resume(self) -> None:
        assert self.path is not None
        saved, faults = read_latest(self.path)
        for fault in faults:
            self.on_event({"kind": "fault", "message": fault})
        if self.folder is not None:  # what a killed run logged after its checkpoint comes again
            self.folder.trim_log(saved.step if saved is not None else 0)
        if saved is None:
            if faults:
                raise StorageError(
                    f"No checkpoint of {self.path} is whole: {'; '.join(faults)}. "
                    "Delete the damaged folders to begin anew."
                )
            return
        self.engine.restore(saved)
        self.step, self.before = saved.step, saved.state["seconds"]
        self.first_loss, self.best = saved.state["first_loss"], saved.state["best"]
        self.on_event({"kind": "resumed", "step": self.step})


def divergence(loss: float, first: float | None, step: int, gradient: float = 0.0) -> str:
    """Why a training leads nowhere, seen from its loss now and at first; nothing while it does."""
    if not (math.isfinite(loss) and math.isfinite(gradient)):
        return f"loss or gradient stopped being a number by step {step}"
    if first is not None and loss > 2 * first + 5:
        return f"the loss rose from {first:.3g} to {loss:.3g} by step {step}"
    return ""


class _Window:
    """Losses and gradients of the last few steps, kept on the device until they are read."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.clear()

    def clear(self) -> None:
        self.losses = torch.zeros((), device=self.device)
        self.norms = torch.zeros((), device=self.device)
        self.count = 0

    def add(self, loss: Tensor, norm: Tensor) -> None:
        self.losses += loss  # one that is not a number makes the sum none either
        self.norms += norm
        self.count += 1

    def read(self) -> tuple[float, float]:
        loss = float(self.losses) / self.count
        norm = float(self.norms) / self.count
        self.clear()
        return loss, norm


class _Stop:
    """Whether someone asked the run to stop, and by which signal."""

    def __init__(self) -> None:
        self.asked, self.name = False, ""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.asked:  # asked twice: at once
            raise KeyboardInterrupt
        self.asked, self.name = True, signal.Signals(number).name


@contextmanager
def _stop_signals() -> Iterator[_Stop]:
    """Catch the signals that end a program, so that the step is finished and saved first."""
    stop = _Stop()
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    try:
        before = {number: signal.signal(number, stop) for number in watched}
    except ValueError:  # not in the main thread: somebody else handles signals
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
