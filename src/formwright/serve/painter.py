"""Reports, drawn in a process of their own, so that the server answers at once meanwhile.

A report is drawn when somebody looks, when the run has changed since, and not before a pause that
grows with what drawing takes: at most a third of the time goes into it, at a low priority, for the
search itself usually runs on the same machine.
"""

import asyncio
import multiprocessing
import os
import signal
import time
from collections import OrderedDict
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from formwright.errors import FormwrightError, StorageError
from formwright.report import gather, page_html
from formwright.serve.runs import Run, State, opened
from formwright.study import Study

PAUSE = 1.5  # seconds between two drawings of one report, at least
_SHARE = 2.0  # the pause is also so many times what the last drawing took
_KEPT = 4  # reports in memory; each is a few megabytes
_NICE = 10


@dataclass
class _Drawn:
    state: State
    page: bytes
    ended: float  # when drawing ended, in monotonic seconds
    took: float  # seconds of a processor

    def due(self) -> float:
        """Seconds until it may be drawn again."""
        return self.ended + max(PAUSE, _SHARE * self.took) - time.monotonic()


class Painter:
    """Draws reports, and keeps the last few."""

    def __init__(self) -> None:
        self._drawn: OrderedDict[str, _Drawn] = OrderedDict()
        self._locks: dict[str, asyncio.Lock] = {}
        self._pool: ProcessPoolExecutor | None = None

    async def page(self, run: Run) -> bytes:
        """The report of a run as it is, or as it was a moment ago."""
        async with self._locks.setdefault(run.name, asyncio.Lock()):  # drawn once for all who ask
            state = await asyncio.to_thread(run.state)
            known = self._drawn.get(run.name)
            if known is not None and (known.state == state or known.due() > 0):
                self._drawn.move_to_end(run.name)
                return known.page
            page, took = await self._paint(run.folder)
            self._drawn[run.name] = _Drawn(state, page, time.monotonic(), took)
            self._drawn.move_to_end(run.name)
            while len(self._drawn) > _KEPT:
                self._drawn.popitem(last=False)
            return page

    def shown(self, run: Run, state: State) -> State:
        """The state that a report would show now: that of the run, or of the last drawing."""
        known = self._drawn.get(run.name)
        return state if known is None or known.due() <= 0 else known.state

    async def _paint(self, folder: Path) -> tuple[bytes, float]:
        loop = asyncio.get_running_loop()
        try:
            page, fault, took = await loop.run_in_executor(self._process(), painted, str(folder))
        except BrokenProcessPool:  # killed by the system, for its memory perhaps: once more
            self.close()
            page, fault, took = await loop.run_in_executor(self._process(), painted, str(folder))
        if fault:
            raise StorageError(fault)
        return page, took

    def _process(self) -> ProcessPoolExecutor:
        if self._pool is None:
            fresh = multiprocessing.get_context("spawn")  # the server has threads
            self._pool = ProcessPoolExecutor(1, mp_context=fresh, initializer=_quietly)
        return self._pool

    def close(self) -> None:
        """End the process, once what it draws is drawn."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)


_open: dict[str, tuple[int, Study]] = {}  # in the painting process: settled trials are read once


def painted(folder: str) -> tuple[bytes, str, float]:
    """The report of a folder, or why there is none, and what it took of a processor.

    Called in the process that paints.
    """
    began = time.process_time()
    inode, study = _open.pop(folder, (0, None))
    try:
        there = (Path(folder) / "study.db").stat().st_ino
        if study is not None and there != inode:  # begun anew under the same name
            study.close()
            study = None
        study = study or opened(Path(folder))
        page = page_html(gather(study)).encode("utf-8")
    except (OSError, FormwrightError) as error:  # in words: not every exception can be sent
        if study is not None:
            study.close()
        return b"", str(error), 0.0
    _open[folder] = (there, study)
    while len(_open) > _KEPT:
        _open.pop(next(iter(_open)))[1].close()
    return page, "", time.process_time() - began


def _quietly() -> None:
    """Ctrl-C is for the server, which ends this process; the search goes first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(max(0, _NICE - os.nice(0)))
