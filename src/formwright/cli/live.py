"""What a search shows while it runs: a bar and the current front, plain lines elsewhere."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from formwright.trial import FINAL

if TYPE_CHECKING:
    from rich.console import RenderableType

    from formwright.study import Event, Study

_REFRESH = 0.5  # seconds between two looks at the front


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
        from formwright.cli.output import wrapped

        print(wrapped(text), flush=True)

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

    def stage(self, name: str, share: float) -> None:
        pass


class Terminal(View):
    """A bar with the time left, and the front below it, redrawn in place."""

    def __init__(self, study: "Study", seconds: float | None, trials: int | None) -> None:
        from rich.live import Live
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        super().__init__(study, seconds, trials)
        self.progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
        )
        self.bar = self.progress.add_task("starting", total=1.0)
        self.remark, self.looked = "", 0.0
        self.watched = type(study).open(study.folder)  # drawn by a thread of its own
        self.front: RenderableType = ""
        self.live = Live(get_renderable=self._drawn, refresh_per_second=2, transient=True)

    def show(self, trial: Any) -> None:
        self.remark = trial_line(self.study, trial)

    def say(self, text: str) -> None:
        self.remark = text

    def stage(self, name: str, share: float) -> None:
        if name not in self.stages:
            self.stages[name] = self.progress.add_task(name, total=1.0)
        self.progress.update(self.stages[name], completed=share)

    def _drawn(self) -> "RenderableType":
        from rich.console import Group

        self.progress.update(
            self.bar, completed=self.share(), description=f"{self.finished} trials"
        )
        if time.monotonic() - self.looked > _REFRESH:
            from formwright.cli.show import front_table

            self.front, self.looked = front_table(self.watched, most=8), time.monotonic()
        return Group(self.progress, self.front, self.remark)


def trial_line(study: "Study", trial: Any) -> str:
    """A finished trial on one line."""
    if not trial.done:
        return f"trial {trial.number:>4}  failed: {trial.reason[:60]}"
    values = "  ".join(f"{o.name} {trial.values[o.name]:.4g}" for o in study.objectives)
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


@contextmanager
def watching(
    study: "Study", *, quiet: bool, seconds: float | None, trials: int | None
) -> Iterator[View]:
    """Follow a search, and catch the signals that end it."""
    kind = Quiet if quiet else (Terminal if sys.stdout.isatty() else View)
    view = kind(study, seconds, trials)
    watched = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, view.catch) for number in watched}
    try:
        if isinstance(view, Terminal):
            with view.live:
                yield view
        else:
            yield view
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if isinstance(view, Terminal):
            view.watched.close()
