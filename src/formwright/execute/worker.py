"""What a worker process does: claim a trial, evaluate it, record it, and say so.

A worker talks to its coordinator in short JSON messages and to the study's record directly. It
keeps its claim alive from a second thread, and never outlives its coordinator.
"""

import ctypes
import json
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from formwright.errors import NoRoom, StorageError
from formwright.space import Space
from formwright.study.folder import record_path
from formwright.study.job import Evaluate, Job, attempt, member_of
from formwright.study.store import Claim, Store
from formwright.trial import Objective, Trial

_PDEATHSIG = 1  # prctl's option: the signal to get when the parent dies


@dataclass(frozen=True)
class WorkerSpec:
    """All that a worker is told when it starts."""

    name: str
    parent: int
    folder: Path
    evaluate: Evaluate
    space: Space
    objectives: tuple[Objective, ...]
    seed: int
    lease: float
    clock: tuple[float, float]  # of the store: base and start, see there


def work(spec: WorkerSpec, link: Connection) -> None:
    """Serve until the coordinator hangs up or dies."""
    die_with(spec.parent)
    os.setpgid(0, 0)  # what the evaluator starts can then be ended together with this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # stopping is the coordinator's decision
    worker: _Worker | None = None
    try:
        worker = _Worker(spec, link)
        worker.say("ready")
        while worker.told() == "look":
            while not link.poll() and (claim := worker.claim()) is not None:
                worker.serve(claim)
            worker.say("idle")
    except (EOFError, BrokenPipeError, ConnectionResetError):  # the coordinator has gone
        pass
    except StorageError as error:  # no fault of a trial: the search ends with what it says
        with suppress(OSError):
            say(link, "stuck", why=str(error), full=isinstance(error, NoRoom))
    finally:
        if worker is not None:
            worker.close()


def say(link: Connection, what: str, **more: Any) -> None:
    """Tell the coordinator something."""
    link.send_bytes(json.dumps({"what": what, **more}).encode())


class _Worker:
    def __init__(self, spec: WorkerSpec, link: Connection) -> None:
        self.spec, self.link = spec, link
        self.store = Store(record_path(spec.folder))
        self.store.clock_base, self.store.clock_start = spec.clock
        self._held: Claim | None = None
        self._closed = threading.Event()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def close(self) -> None:
        self._closed.set()
        self._heart.join()
        self.store.close()

    def say(self, what: str, **more: Any) -> None:
        say(self.link, what, **more)

    def told(self) -> str:
        return self.link.recv_bytes().decode()

    def claim(self) -> Claim | None:
        self._held = self.store.claim(self.spec.name, self.spec.lease)
        return self._held

    def serve(self, claim: Claim) -> None:
        self.say("began", number=claim.number)
        job = self._job(claim.number)
        answer = attempt(self.spec.evaluate, job, self.spec.objectives)
        self._held = None
        kept = self.store.finish(claim, answer.settle(job.trial))
        self.say("ended" if kept else "refused", number=claim.number)

    def _job(self, number: int) -> Job:
        spec, trial = self.spec, self._trial(number)
        member = member_of(spec.space, trial)
        return Job.of(trial, member, spec.folder, spec.seed, self._trial)

    def _trial(self, number: int) -> Trial:
        (trial,) = self.store.trials_at([number])
        return trial

    def _beat(self) -> None:
        """Renew the claim three times in a lease, with a connection of this thread's own."""
        store = Store(record_path(self.spec.folder))
        while not self._closed.wait(self.spec.lease / 3):
            if os.getppid() != self.spec.parent:
                os._exit(1)
            try:
                if (held := self._held) is not None:
                    store.renew(held, self.spec.lease)
            except StorageError:  # a full disk, say: there may be room by the next beat
                continue
        store.close()


def die_with(parent: int) -> None:
    """Have the system end this process when its parent dies, however that dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
