"""Evaluates in worker processes of this machine.

Workers claim trials from the study's record themselves and write their results to it; the
coordinator only wakes them, watches over them and replaces those that die. A trial whose worker
died is tried again; a worker that takes too long, or no longer renews its lease, is ended.
"""

import json
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from formwright.errors import InputError
from formwright.execute.worker import WorkerSpec, work
from formwright.study import Answer, Evaluate, Executor, Job, Study
from formwright.study.folder import record_path
from formwright.study.store import Claim, Store

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_FALSE_STARTS = 3  # workers that may die in a row before one of them is ready


@dataclass
class _Handle:
    """A worker as the coordinator sees it."""

    name: str
    process: SpawnProcess
    link: Connection
    ready: bool = False
    idle: bool = False  # has looked and found nothing
    trial: int | None = None
    since: float = field(default_factory=time.monotonic)


class Processes(Executor):
    """Worker processes, each with one thread of computation.

    Args:
        evaluate: Handed to every worker, so it must be picklable.
        workers: How many.
        time_limit: Seconds one trial may take; its worker is then ended and the trial has failed.
        retries: How often a trial is tried again when its worker died.
        lease: Seconds without a sign of life after which a worker counts as dead.
    """

    records = True

    def __init__(
        self,
        evaluate: Evaluate,
        workers: int,
        *,
        time_limit: float | None = None,
        retries: int = 1,
        lease: float = 10.0,
    ) -> None:
        if workers < 1:
            raise InputError(f"{workers} workers were asked for; give 1 or more.")
        self.evaluate, self.workers, self.time_limit = evaluate, workers, time_limit
        self.retries, self.lease = retries, lease
        self._handles: list[_Handle] = []
        self._queued: set[int] = set()  # handed over, and not yet heard that somebody began
        self._ended: list[Answer] = []
        self._started = self._false_starts = 0
        self._looked = 0.0
        self._closing = False
        self._store: Store | None = None

    @property
    def pids(self) -> list[int]:
        """The worker processes that live."""
        return [h.process.pid for h in self._handles if h.process.pid is not None]

    def start(self, study: Study) -> None:
        self._study, self._closing = study, False
        self._store = Store(record_path(study.folder))
        self._store.clock_base = self._store.seconds()
        for _ in range(self.workers):
            self._spawn()

    def submit(self, jobs: Sequence[Job]) -> None:
        self._queued.update(job.trial.number for job in jobs)
        self._wake()

    def collect(self, timeout: float) -> list[Answer]:
        end = time.monotonic() + timeout
        while not self._ended:
            left = end - time.monotonic()
            self._listen(max(0.0, min(left, 0.1)))
            self._supervise()
            if left <= 0:
                break
        ended, self._ended = self._ended, []
        return ended

    def close(self, patience: float = 0.0) -> list[Answer]:
        self._closing = True
        self._queued.clear()
        for handle in list(self._handles):
            if handle.ready and patience > 0:
                _send(handle, "stop")
            else:
                self._kill(handle)
                self._handles.remove(handle)
        end = time.monotonic() + patience
        while self._handles and time.monotonic() < end:  # each leaves when its trial has ended
            self._listen(0.05)
            self._over_time()
        for handle in self._handles:
            self._kill(handle)
        self._handles = []
        if self._store is not None:
            self._store.close()
            self._store = None
        ended, self._ended = self._ended, []
        return ended

    # ------------------------------------------------------------------------------- messages

    def _listen(self, timeout: float) -> None:
        """Read what workers say, and take note of those that have died."""
        links = {handle.link: handle for handle in self._handles}
        for link in wait(list(links), timeout):
            handle = links[link]  # type: ignore[index]
            try:
                while handle.link.poll():
                    self._heed(handle, json.loads(handle.link.recv_bytes(1 << 20)))
            except (EOFError, OSError, ValueError):  # the other end has closed
                self._reap(handle)

    def _heed(self, handle: _Handle, message: dict[str, object]) -> None:
        what, number = message["what"], message.get("number")
        if what == "began" and isinstance(number, int):
            handle.trial, handle.since, handle.idle = number, time.monotonic(), False
            self._queued.discard(number)
        elif what in ("ended", "refused") and isinstance(number, int):
            handle.trial = None
            if what == "ended":
                self._ended.append(Answer(number, recorded=True))
        else:  # ready or idle
            if what == "ready":
                handle.ready, self._false_starts = True, 0
            handle.idle = True
            if self._queued:
                self._wake()

    def _wake(self) -> None:
        for handle in self._handles:
            if handle.idle:
                handle.idle = False
                _send(handle, "look")

    # --------------------------------------------------------------------------- looking after

    def _supervise(self) -> None:
        """End workers that take too long or have fallen silent; replace the dead."""
        self._over_time()
        if time.monotonic() - self._looked > min(1.0, self.lease / 3):
            self._looked = time.monotonic()
            for claim in self._record.expired():
                silent = [handle for handle in self._handles if handle.name == claim.worker]
                for handle in silent:
                    self._kill(handle)
                self._lost(claim, f"it gave no sign of life for {self.lease:g} s")
                self._handles = [handle for handle in self._handles if handle not in silent]
        while len(self._handles) < self.workers:
            self._spawn()

    def _over_time(self) -> None:
        if self.time_limit is None:
            return
        for handle in list(self._handles):
            if handle.trial is not None and time.monotonic() - handle.since > self.time_limit:
                claim = self._record.claimed_by(handle.name)
                self._kill(handle)
                self._handles.remove(handle)
                if claim is not None:
                    why = f"it took longer than the time limit of {self.time_limit:g} s"
                    self._lost(claim, why, retries=0)

    def _reap(self, handle: _Handle) -> None:
        """A worker has died by itself."""
        end = time.monotonic() + 2  # it has hung up, so it is about to end
        while _ended(handle.process.pid or 0) is False and time.monotonic() < end:
            time.sleep(0.005)
        self._handles.remove(handle)
        self._kill(handle)
        claim, code = self._record.claimed_by(handle.name), handle.process.exitcode
        if not handle.ready and not self._closing:
            self._false_starts += 1
            if self._false_starts >= _FALSE_STARTS:
                raise InputError(
                    f"Worker processes end (code {code}) before they are ready; the messages above "
                    "say why. Most often the evaluator cannot be imported in a fresh process."
                )
        if claim is not None:
            self._lost(claim, _how_it_ended(code))
        elif handle.trial is not None:  # it died between recording a result and saying so
            self._ended.append(Answer(handle.trial, recorded=True))

    def _lost(self, claim: Claim, why: str, retries: int | None = None) -> None:
        retries = self.retries if retries is None else retries
        if self._record.lose(claim, why, retries):
            self._queued.add(claim.number)
            self._wake()
        else:
            self._ended.append(Answer(claim.number, recorded=True))

    # ------------------------------------------------------------------------ hiring and firing

    @property
    def _record(self) -> Store:
        assert self._store is not None, "start() comes first"
        return self._store

    def _spawn(self) -> None:
        here, there = multiprocessing.Pipe()
        self._started += 1
        spec = WorkerSpec(
            name=f"worker {self._started} of process {os.getpid()} on {socket.gethostname()}",
            parent=os.getpid(),
            folder=self._study.folder.absolute(),
            evaluate=self.evaluate,
            space=self._study.space,
            objectives=self._study.objectives,
            seed=self._study.seed,
            lease=self.lease,
            clock=(self._record.clock_base, self._record.clock_start),
        )
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=work, args=(spec, there), daemon=True)
        try:
            with _one_thread():
                process.start()
        except (AttributeError, TypeError) as error:  # what pickle raises
            raise _unpicklable(error) from None
        except Exception as error:
            if type(error).__name__ == "PicklingError":
                raise _unpicklable(error) from None
            raise
        there.close()
        self._handles.append(_Handle(spec.name, process, here))

    def _kill(self, handle: _Handle) -> None:
        """End a worker, and whatever its evaluator has started, for certain."""
        pid = handle.process.pid
        if pid is not None and _ended(pid) is not None:  # otherwise the number may be another's
            for kill in (os.killpg, os.kill):
                with suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
        handle.process.join()
        handle.link.close()


def _ended(pid: int) -> bool | None:
    """Whether a child has ended; None when it has also been waited for, and its number is free."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return None


def _send(handle: _Handle, word: str) -> None:
    with suppress(OSError):  # it has died: that is noticed when it is listened to
        handle.link.send_bytes(word.encode())


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
        return f"it was ended by signal {-code} ({name}){hint}"
    return f"it ended by itself with code {code}"


def _unpicklable(error: Exception) -> InputError:
    return InputError(
        f"The evaluator or the space cannot be handed to worker processes: {error}. "
        "Define it at the top of a module, or use one worker."
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Have a process started inside compute with one thread: workers share the cores."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
