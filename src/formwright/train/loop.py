"""The loop that takes an engine's steps: for plain models and searches, resumable to the bit.

A run in a folder continues where its last good checkpoint stands. Loss and gradient are looked at
every few steps, never at each, so that the machine does not wait for a number to be read.
"""

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from formwright.errors import StorageError
from formwright.train.checkpoint import read_latest
from formwright.train.distributed import World, agreed, gathered, mean
from formwright.train.engine import Engine
from formwright.train.run import RunFolder

OnProgress = Callable[[dict[str, Any]], None]

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # signals that end a program


class Loop:
    """Steps, looks and checkpoints; a subclass says what else happens at each.

    Args:
        engine: What takes the steps.
        folder: Where the run is kept; without one nothing is written and nothing can be resumed.
        on_event: Called with what happens: steps, faults, resuming.
        stop: Asked after each step; True interrupts the run. Without it, signals that end a
            program do.
    """

    evaluates = True  # whether there is something to be scored on the validation set

    def __init__(
        self,
        engine: Engine,
        folder: RunFolder | None,
        on_event: OnProgress | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self.engine, self.folder, self.stop = engine, folder, stop
        self.config, self.world = engine.config, engine.world
        self.on_event = on_event or (lambda event: None)
        self.before, self.started = 0.0, time.perf_counter()  # seconds of earlier sessions; now
        self.window, self.pace = _Window(engine.device, engine.dtype), _Pace()

    # --- what a subclass may change -----------------------------------------------------

    def take(self) -> None:
        """Take one step, and keep its loss."""
        self.window.add(*self.engine.step())

    def over(self) -> str:
        """Why the run has ended; nothing while it goes on."""
        return "all steps were taken" if self.engine.progress() >= 1 else ""

    def look(self, loss: float, gradient: float) -> None:
        """Say where the run stands; both are means since the last look."""

    def evaluate(self) -> bool:
        """Look at the validation set; whether it is time to stop early, and ``over`` says so."""
        return False

    def fault(self, looks: bool, ends: bool) -> str:
        """Why the run leads nowhere; nothing while it does.

        Between two looks all that is asked is whether the loss is a number, so that a run that
        was stopped there comes to the same end.
        """
        loss, gradient, first = self.window.read(self.world)
        if not (math.isfinite(loss) and math.isfinite(gradient)):
            return f"loss or gradient stopped being a number by step {self.engine.number}"
        if looks and first is not None and loss > 2 * first + 5:
            return f"the loss rose from {first:.3g} to {loss:.3g} by step {self.engine.number}"
        return ""

    def state(self) -> dict[str, Any]:
        """What the loop itself must know to go on."""
        return {
            "seconds": self.seconds(),
            "window": self.window.to_data(self.world),
            "pace": astuple(self.pace),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what ``state`` gave."""
        self.before = self.engine.seconds = state["seconds"]
        self.window.restore(state["window"])
        self.pace = _Pace(*state.get("pace", ()))

    def kept(self) -> dict[str, dict[str, Tensor]]:
        """Tensors that a checkpoint holds for the loop itself, by the name of their file."""
        return {}

    def restore_kept(self, tensors: dict[str, dict[str, Tensor]]) -> None:
        """Have back what ``kept`` gave; there may be nothing."""

    # --- the run ------------------------------------------------------------------------

    def run(self) -> tuple[str, str]:
        """Take steps until the end: finished, diverged or interrupted, and why."""
        try:
            with _signals(_ENDING if self.stop is None else ()) as came:
                return self._run(came)
        finally:
            self.engine.close()

    def _run(self, came: list[str]) -> tuple[str, str]:
        ending = self.over()
        while not ending:
            with self.pace.measured():
                self.take()
            asked, ending = self._heed(came), self.over()
            last = bool(ending) and self.config.keep_best  # the end counts as a look
            scores = self.evaluates and (self._due(self.config.evaluate_every) or last)
            saves = asked or self._due(self.config.checkpoint_every)
            looks = self._due(self.config.log_every) or scores or (bool(ending) and not asked)
            fault = self.fault(looks, bool(ending)) if looks or saves else ""
            if fault:
                return "diverged", fault
            if looks:
                self.look(*self.window.read(self.world)[:2])
                self.window.clear()
            if scores and self.evaluate():
                return "finished", self.over()
            if saves:
                self.save()
            if asked:
                return "interrupted", f"stopped by {came[0] if came else 'the caller'}"
        return "finished", ending

    def _due(self, every: int) -> bool:
        return every > 0 and self.engine.number % every == 0

    def _heed(self, came: list[str]) -> bool:
        """Whether to stop; all processes agree on that, and on the time."""
        asked = bool(came) if self.stop is None else self.stop()
        values = agreed((asked, self.seconds()), self.world, self.engine.device)
        self.engine.seconds = values[1]
        return bool(values[0])

    def seconds(self) -> float:
        """How long the run has taken, over all sessions."""
        return self.before + time.perf_counter() - self.started

    def say(self, event: dict[str, Any]) -> None:
        """Write an event to the log, and tell whoever listens."""
        if self.folder is not None:
            self.folder.log(event)
        self.on_event(event)

    def save(self) -> None:
        """Leave a checkpoint to go on from."""
        if self.folder is not None:
            saved = self.engine.checkpoint(self.state())
            saved.tensors |= self.kept()
            self.folder.save(saved)

    def resume(self) -> None:
        """Go on from the newest checkpoint that is whole, where there is one."""
        if self.folder is None:
            return
        gathered(None, self.world)  # none reads before the one that leads has written
        saved, faults = read_latest(self.folder.path)
        for fault in faults:
            self.on_event({"kind": "fault", "message": fault})
        # what a killed run logged after its checkpoint comes again
        self.folder.trim_logs(saved.step if saved is not None else 0)
        if saved is not None:
            self.engine.restore(saved)
            self.restore(saved.state)
            self.restore_kept(saved.tensors)
            self.on_event({"kind": "resumed", "step": saved.step})
        elif faults:
            raise StorageError(
                f"No checkpoint of {self.folder.path} is whole: {'; '.join(faults)}. "
                "Delete the damaged folders to begin anew."
            )


@dataclass
class _Pace:
    """What the steps took, over all sessions; looks and scores do not count."""

    steps: int = 0
    processor: float = 0.0  # seconds of computing, in all threads
    wall: float = 0.0  # seconds that passed

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Count a step."""
        processor, wall = time.process_time(), time.perf_counter()
        yield
        self.steps += 1
        self.processor += time.process_time() - processor
        self.wall += time.perf_counter() - wall


class _Window:
    """Losses and gradients of the last few steps, kept on the device until they are read."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.like: Any = {"device": device, "dtype": dtype}
        self.first: Tensor | float | None = None  # loss of the first step of all
        self.clear()

    def clear(self) -> None:
        self.sums = torch.zeros(2, **self.like)
        self.count = 0

    def add(self, loss: Tensor | float, norm: Tensor | float) -> None:
        self.first = loss if self.first is None else self.first
        self.sums[0] += loss  # one that is not a number makes the sum none either
        self.sums[1] += norm
        self.count += 1

    def read(self, world: World) -> tuple[float, float, float | None]:
        """Mean loss and gradient, and the loss of the first step of all, over all processes."""
        *sums, count, first = self.to_data(world)
        return sums[0] / max(1, count), sums[1] / max(1, count), first

    def to_data(self, world: World) -> list[Any]:
        """The means over all processes, which must ask at once."""
        first = None if self.first is None else float(self.first)
        values = torch.tensor([*self.sums.tolist(), first or 0.0], **self.like)
        *sums, mean_first = mean(values, world).tolist()
        return [*sums, self.count, None if first is None else mean_first]

    def restore(self, data: list[Any]) -> None:
        self.sums = torch.tensor(data[:2], **self.like)
        self.count, self.first = data[2:]


@contextmanager
def _signals(watched: Iterable[signal.Signals]) -> Iterator[list[str]]:
    """Names of the signals that came, so that the step is finished and saved first."""
    came: list[str] = []

    def note(number: int, frame: FrameType | None) -> None:
        if came:  # asked twice: at once
            raise KeyboardInterrupt
        came.append(signal.Signals(number).name)

    before: dict[signal.Signals, Any] = {}
    with suppress(ValueError):  # not in the main thread: somebody else handles signals
        for number in watched:
            before[number] = signal.signal(number, note)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
