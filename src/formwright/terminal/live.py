"""Who follows a search: a live view in a terminal or a notebook, plain lines elsewhere."""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, Any

from formwright.terminal.words import duration, quantity, wrapped
from formwright.trial import FINAL

if TYPE_CHECKING:
    from rich.console import RenderableType

    from formwright.study import Event, Study

_REFRESH = 0.5  # seconds between two looks at the front
_FRONT = 8  # rows of it
_BARS = 4  # the latest phases and stages that are shown


@dataclass(frozen=True)
class Bar:
    """A phase of a search, as far as its end is known.

    Args:
        name: What is done.
        began: When it began, in monotonic seconds.
        trials: How many had ended by then.
        seconds: How long it will take; None where nobody knows.
        most: How many trials end in it; None where nobody knows.
    """

    name: str
    began: float
    trials: int
    seconds: float | None = None
    most: int | None = None

    def share(self, now: float, trials: int) -> float | None:
        """How much of it is done, 0 to 1; None where nobody knows."""
        parts = []
        if self.seconds:
            parts.append((now - self.began) / self.seconds)
        if self.most:
            parts.append((trials - self.trials) / self.most)
        return min(1.0, max(parts)) if parts else None


class View:
    """Follows a search; asked whether it should stop.

    Args:
        study: What is followed.
        seconds: Budget in time.
        trials: Budget in trials.
    """

    def __init__(self, study: "Study", seconds: float | None, trials: int | None) -> None:
        self.study, self.seconds, self.trials = study, seconds, trials
        self.before = study.state.seconds
        self.began = time.monotonic()
        self.finished = study.state.done + study.state.failed
        self.signal = 0
        self.stages: dict[str, Any] = {}  # what was last said of each

    @property
    def exit_code(self) -> int:
        """128 and the number of the signal, as shells have it."""
        return 128 + (self.signal or signal.SIGINT)

    def stopped(self) -> bool:
        """Whether a signal asked to stop."""
        return bool(self.signal)

    def catch(self, number: int, frame: FrameType | None) -> None:
        """Take note of a signal; the second one ends at once."""
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        self.say("stopping; a running trial is given a few seconds")

    def on_event(self, event: "Event") -> None:
        """A trial was proposed or has ended."""
        if event.kind == "finished":
            self.finished += 1
            self.show(event.trial)

    def show(self, trial: Any) -> None:
        """One line per trial."""
        print(trial_line(self.study, trial), flush=True)

    def say(self, text: str) -> None:
        """A remark."""
        print(wrapped(text), flush=True)

    def phase(self, name: str, seconds: float | None = None, trials: int | None = None) -> None:
        """A phase begins, which will take so many seconds or trials, where that is known."""
        if seconds:
            self.say(f"{name}: about {duration(seconds)}")

    def stage(self, name: str, share: float) -> None:
        """How much of a stage is done, 0 to 1; a line for each quarter."""
        quarter = int(4 * share)
        if self.stages.get(name) != quarter:
            self.stages[name] = quarter
            self.say(f"{name}: {25 * quarter} %")

    def share(self) -> float:
        """How much of the budget is spent, 0 to 1."""
        parts = []
        if self.seconds:
            parts.append((self.before + time.monotonic() - self.began) / self.seconds)
        if self.trials:
            parts.append(self.finished / self.trials)
        return min(1.0, max(parts, default=0.0))


class Quiet(View):
    """Shows nothing."""

    def show(self, trial: Any) -> None:
        pass

    def say(self, text: str) -> None:
        pass

    def phase(self, name: str, seconds: float | None = None, trials: int | None = None) -> None:
        pass

    def stage(self, name: str, share: float) -> None:
        pass


class Terminal(View):
    """A bar for the whole and one for each phase, the front so far, and what was said last."""

    def __init__(self, study: "Study", seconds: float | None, trials: int | None) -> None:
        from rich.live import Live  # noqa: PLC0415  # only where somebody looks
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        super().__init__(study, seconds, trials)
        self.progress = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.description}"),
        )
        known = bool(seconds or trials)
        self.bar = self.progress.add_task("starting", total=1.0 if known else None)
        self.current: Bar | None = None
        self.shown: dict[str, Any] = {}  # name of a phase or stage to its bar
        self.remark, self.looked = "", 0.0
        self.watched = type(study).open(study.folder)  # drawn by a thread of its own
        self.front: RenderableType = ""
        self.live = Live(get_renderable=self._drawn, refresh_per_second=2, transient=True)

    def show(self, trial: Any) -> None:
        self.remark = trial_line(self.study, trial)

    def say(self, text: str) -> None:
        if self.remark and self._planning:  # what is said of the plan stays to be read
            self.live.console.print(wrapped(self.remark), highlight=False, markup=False)
        self.remark = text

    @property
    def _planning(self) -> bool:
        return self.current is None or self.current.name == "plan"

    def phase(self, name: str, seconds: float | None = None, trials: int | None = None) -> None:
        if self.remark and self._planning:
            self.live.console.print(wrapped(self.remark), highlight=False, markup=False)
            self.remark = ""
        if self.current is not None and self.current.name != name:
            self.stage(self.current.name, 1.0)
        self.current = Bar(name, time.monotonic(), self.finished, seconds, trials)
        self.progress.update(self._row(name), total=1.0 if seconds or trials else None)

    def stage(self, name: str, share: float) -> None:
        self.progress.update(self._row(name), total=1.0, completed=share)

    def _row(self, name: str) -> Any:
        """The bar of a phase or stage; of many, the latest are shown."""
        if name not in self.shown:
            while len(self.shown) >= _BARS:
                self.progress.remove_task(self.shown.pop(next(iter(self.shown))))
            self.shown[name] = self.progress.add_task(name, total=None)
        return self.shown[name]

    def _drawn(self) -> "RenderableType":
        from rich.console import Group  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        self.progress.update(
            self.bar, completed=self.share(), description=f"in all, {self.finished:,} trials"
        )
        now, current = time.monotonic(), self.current
        share = current.share(now, self.finished) if current is not None else None
        if current is not None and share is not None and current.name in self.shown:
            self.progress.update(self.shown[current.name], completed=share)
        if now - self.looked > _REFRESH:
            from formwright.terminal.front import front_table  # noqa: PLC0415

            self.front, self.looked = front_table(self.watched, most=_FRONT), now
        return Group(self.progress, self.front, Text(self.remark))

    def close(self) -> None:
        """Let go of the record; what was said last stays."""
        self.watched.close()


def trial_line(study: "Study", trial: Any) -> str:
    """A finished trial on one line."""
    if not trial.done:
        return f"trial {trial.number:>4}  failed: {trial.reason[:60]}"
    values = "  ".join(
        f"{o.name} {quantity(o.name, trial.values[o.name])}" for o in study.objectives
    )
    stage = f"stage {trial.rung + 1}  " if trial.rung else ""
    if trial.final or trial.origin == FINAL:
        stage = "final    " if trial.final else "judged   "  # with seeds, before the finals
    line = f"trial {trial.number:>4}  {stage}{values}"
    if trial.rival:
        return f"{line}  {trial.note}"
    if study.strategy_name != "given":
        return line
    room = max(0, 78 - len(line))  # what is tried is known by its name
    note = trial.made_by
    note = note if len(note) <= room else f"{note[: max(0, room - 1)]}\u2026"
    return f"{line}  {note}".rstrip()


def lively() -> bool:
    """Whether what is shown can be drawn again in place: in a terminal, and in a notebook."""
    from rich.console import Console  # noqa: PLC0415

    if Console().is_jupyter:
        return find_spec("ipywidgets") is not None  # else lines, which always work there
    return sys.stdout.isatty()


@contextmanager
def watching(
    study: "Study", *, quiet: bool, seconds: float | None, trials: int | None
) -> Iterator[View]:
    """Follow a search, and catch the signals that end it."""
    kind = Quiet if quiet else (Terminal if lively() else View)
    view = kind(study, seconds, trials)
    watched = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    if threading.current_thread() is not threading.main_thread():
        watched = []  # only the main thread may
    before = {number: signal.signal(number, view.catch) for number in watched}
    try:
        with view.live if isinstance(view, Terminal) else nullcontext():
            yield view
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if isinstance(view, Terminal):
            view.close()
