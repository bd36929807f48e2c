"""What a tracker is, and the queue that keeps it away from the work.

A tracker is somebody else's program: it may wait for a server that never answers, fill a disk or
raise what it likes. So it is made, told and closed in a thread of its own, behind a queue that
never waits. When it fails or falls behind there is one warning, and the work goes on as without it;
what a run itself writes into its folder is complete in any case.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from typing import Any, ClassVar

from formwright.errors import InputError
from formwright.registry import Registry

Numbers = Mapping[str, float]
Warn = Callable[[str], None]
PATIENCE = 10.0  # seconds that the end of a run waits for a tracker
_WAITING = 20_000  # numbers that may wait; older ones go first when there are more
_END = None


class Tracker(ABC):
    """Takes numbers by name. It is used by one thread alone, and may raise anything.

    Args:
        folder: Of the run; what is kept on this machine goes there.
        about: What the run is, as plain values.
    """

    NAME: ClassVar[str]
    NEEDS: ClassVar[tuple[str, ...]] = ()  # modules it imports ...
    INSTALL: ClassVar[str] = ""  # ... and the command that installs them

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        self.folder, self.about = folder, dict(about)

    @abstractmethod
    def begin(self) -> None:
        """Open whatever is written to."""

    @abstractmethod
    def log(self, numbers: Numbers, step: int) -> None:
        """Take some numbers of one step."""

    @abstractmethod
    def end(self) -> None:
        """Write what is left, and let go."""


class _Trackers(Registry[type[Tracker]]):
    def announce(self, name: str, thing: Any) -> None:
        if not (isinstance(thing, type) and issubclass(thing, Tracker)):
            raise InputError(f"{thing!r} is no class of trackers.")
        super().announce(name, thing)


trackers = _Trackers("tracker", "formwright.trackers", "formwright.track")


def tracker_names() -> list[str]:
    """Every tracker, sorted."""
    return sorted(trackers)


def tracker_class(name: str) -> type[Tracker]:
    """The tracker called ``name``, if all that it needs is installed."""
    found = trackers.get(name)
    missing = [module for module in found.NEEDS if not _installed(module)]
    if missing:
        raise InputError(
            f"--log {name} needs {missing[0]}, which is not installed: {found.INSTALL}"
        )
    return found


def check_trackers(names: Iterable[str]) -> None:
    """Refuse trackers that are unknown or not installed, before anything is done."""
    for name in names:
        tracker_class(name)


class Behind:
    """A tracker behind a queue: telling it takes microseconds, whatever it does.

    Args:
        tracker: What is told.
        warn: Called at most once, with one sentence.
        patience: Seconds that ``close`` waits for it.
    """

    def __init__(self, tracker: Tracker, warn: Warn, patience: float = PATIENCE) -> None:
        self.tracker, self.patience = tracker, patience
        self._warn: Warn | None = warn
        self._queue: Queue[tuple[Numbers, int] | None] = Queue(_WAITING)
        # a daemon: a tracker that hangs must not keep the program from ending
        self._thread = Thread(target=self._work, name=f"log to {tracker.NAME}", daemon=True)
        self._thread.start()

    def log(self, numbers: Numbers, step: int) -> None:
        """Tell it some numbers; those that are not finite are left out."""
        known = {name: float(value) for name, value in numbers.items() if isfinite(value)}
        if known and self._thread.is_alive():
            self._put((known, step))

    def close(self) -> None:
        """Let it write what is left, for as long as ``patience`` allows."""
        if self._thread.is_alive():
            self._put(_END)
            self._thread.join(self.patience)
        if self._thread.is_alive():
            self._complain(f"did not end within {self.patience:g} s")

    def _put(self, item: tuple[Numbers, int] | None) -> None:
        while True:
            try:
                self._queue.put_nowait(item)
                return
            except Full:
                self._complain(f"does not keep up; only the last {_WAITING:,} numbers are kept")
                try:
                    self._queue.get_nowait()
                except Empty:  # it took one meanwhile
                    time.sleep(0)

    def _work(self) -> None:
        try:
            self.tracker.begin()
            while (item := self._queue.get()) is not _END:
                self.tracker.log(*item)
            self.tracker.end()
        except BaseException as error:  # also SystemExit: it ends this thread, and nothing else
            words = " ".join(f"{type(error).__name__}: {error}".split())
            self._complain(f"failed ({words[:200]})")

    def _complain(self, what: str) -> None:
        warn, self._warn = self._warn, None
        if warn is not None:
            warn(
                f"--log {self.tracker.NAME} {what}; the run goes on without it, and its own record "
                f"is in {self.tracker.folder}."
            )


def _installed(module: str) -> bool:
    try:
        return module in sys.modules or find_spec(module) is not None
    except (ImportError, ValueError):
        return False
