"""Evaluates in worker processes of this machine.

Workers claim trials from the study's record themselves and write their results to it; the
coordinator only wakes them, watches over them and replaces those that die. A worker that takes too
long, or no longer renews its lease, is ended.

A worker killed from outside is no fault of its trial, which is tried again however often that
happens. A trial that ends its own process again and again is passed over, with the reason. Which of
the two it was follows from three rules:

1. A process that crashed or left by itself (a fault in memory, an exit) was not killed from
   outside: the second time over one trial, that trial has failed.
2. After three other losses a trial is tried alone, with pauses that double. Others wait meanwhile:
   what ran short of memory beside them may do without them.
3. While it is tried alone, at least one worker stands idle beside it. Who kills workers from
   outside hits that one too, and then nothing is held against the trial. Three losses alone, one
   after the other, of which the idle ones saw nothing, are its own doing.
"""

import json
import multiprocessing
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import inf
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from formwright.errors import InputError, NoRoom, StorageError
from formwright.execute.worker import WorkerSpec, work
from formwright.study import Answer, Evaluate, Executor, Job, Study
from formwright.study.folder import record_path
from formwright.study.store import Claim, Store

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_FALSE_STARTS = 3  # workers that may leave by themselves in a row before one of them is ready
_KILLED_STARTS = 50  # and be killed
_OWN = 2  # crashes over one trial after which it has failed
_LONE = 3  # losses in a row of a trial that is tried alone, after which it has failed
# Signals that a process brings upon itself.
_CRASHES = {
    -n for n in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)
}


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
        pause: Seconds before a trial is tried alone again; doubled each time.
        lease: Seconds without a sign of life after which a worker counts as dead.
    """

    records = True

    def __init__(
        self,
        evaluate: Evaluate,
        workers: int,
        *,
        time_limit: float | None = None,
        pause: float = 1.0,
        lease: float = 10.0,
    ) -> None:
        if workers < 1:
            raise InputError(f"{workers} workers were asked for; give 1 or more.")
        self.evaluate, self.workers, self.time_limit = evaluate, workers, time_limit
        self.pause, self.lease = pause, lease
        self._crashes: Counter[int] = Counter()  # by trial: ends that nobody else can have caused
        self._lone: Counter[int] = Counter()  # by trial: losses in a row while it was tried alone
        self._suspects: set[int] = set()  # trials that are tried alone
        self._resting = 0.0  # until when no suspect is tried
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
        self._suspects = set(self._store.suspects())
        self._staff()

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
            handle, messages, gone = links[link], [], False  # type: ignore[index]
            try:
                while handle.link.poll():
                    messages.append(json.loads(handle.link.recv_bytes(1 << 20)))
            except (EOFError, OSError, ValueError):  # the other end has closed
                gone = True
            for message in messages:
                self._heed(handle, message)
            if gone:
                self._reap(handle)

    def _heed(self, handle: _Handle, message: dict[str, object]) -> None:
        what, number = message["what"], message.get("number")
        if what == "began" and isinstance(number, int):
            handle.trial, handle.since, handle.idle = number, time.monotonic(), False
            self._queued.discard(number)
        elif what in ("ended", "refused") and isinstance(number, int):
            handle.trial = None
            self._suspects.discard(number)
            if what == "ended":
                self._ended.append(Answer(number, recorded=True))
        elif what == "stuck" and not self._closing:  # a disk, not a trial
            raise (NoRoom if message.get("full") else StorageError)(str(message.get("why")))
        else:  # ready or idle
            if what == "ready":
                handle.ready, self._false_starts = True, 0
            handle.idle = True
            if self._queued - self._suspects:
                self._wake()

    def _wake(self) -> None:
        """Have as many look for a trial as may work at once; who watches a suspect stays idle."""
        if any(handle.trial in self._suspects for handle in self._handles):
            return
        free = self.workers - sum(handle.ready and not handle.idle for handle in self._handles)
        for handle in [handle for handle in self._handles if handle.idle][: max(0, free)]:
            handle.idle = False
            _send(handle, "look")

    def _try_suspects(self) -> None:
        """Have one worker look when all others stand idle and the pause is over."""
        if not self._queued & self._suspects or time.monotonic() < self._resting:
            return
        idle = [handle for handle in self._handles if handle.idle]
        if len(idle) == len(self._handles) > 1:
            idle[0].idle = False
            _send(idle[0], "look")

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
        self._staff()
        if self._queued - self._suspects:
            self._wake()
        else:
            self._try_suspects()

    def _staff(self) -> None:
        """As many workers as were asked for; a single one has a witness while it is on trial."""
        wanted = max(self.workers, 2 if self._suspects else 1)
        while len(self._handles) < wanted:
            self._spawn()
        for handle in [handle for handle in self._handles if handle.idle]:
            if len(self._handles) > wanted:
                self._kill(handle)
                self._handles.remove(handle)

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
                    self._failed(claim, why)

    def _reap(self, handle: _Handle) -> None:
        """A worker has died by itself."""
        end = time.monotonic() + 2  # it has hung up, so it is about to end
        while _ended(handle.process.pid or 0) is False and time.monotonic() < end:
            time.sleep(0.005)
        self._handles.remove(handle)
        self._kill(handle)
        claim, code = self._record.claimed_by(handle.name), handle.process.exitcode
        killed = code is not None and code < 0
        if not handle.ready and not self._closing:
            self._false_starts += 1
            if self._false_starts >= (_KILLED_STARTS if killed else _FALSE_STARTS):
                raise InputError(
                    f"Worker processes end (code {code}) before they are ready; the messages above "
                    "say why. Most often the evaluator cannot be imported in a fresh process."
                )
        if claim is not None:
            self._lost(claim, _how_it_ended(code), crashed=not killed or code in _CRASHES)
        elif handle.trial is not None:  # it died between recording a result and saying so
            self._ended.append(Answer(handle.trial, recorded=True))
        if claim is None and killed:  # somebody kills workers, so no trial is to blame
            self._lone.clear()

    def _lost(self, claim: Claim, why: str, crashed: bool = False) -> None:
        """A worker died or fell silent over a trial: see the rules at the head of this file."""
        number = claim.number
        self._crashes[number] += crashed
        self._lone[number] += number in self._suspects
        if self._crashes[number] >= _OWN or self._lone[number] >= _LONE:
            also = ", also with nothing else running" if number in self._suspects else ""
            self._failed(claim, f"each time{also}, {why}")
            return
        if not self._record.lose(claim, why, inf):  # it had just recorded its result
            self._ended.append(Answer(number, recorded=True))
            return
        if number in self._record.suspects():
            self._suspects.add(number)
            self._resting = time.monotonic() + self.pause * 2 ** self._lone[number]
        self._queued.add(number)
        self._wake()

    def _failed(self, claim: Claim, why: str) -> None:
        """A trial has failed for good."""
        self._record.lose(claim, why, 0)
        self._suspects.discard(claim.number)
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
