"""Evaluates on a Ray cluster: trials are tasks with requests, on as many nodes as there are.

The coordinator hands out a trial when a node has room for it, claims it in the study's record when
its worker says that it has begun, and records its result: the record is the only truth, so a
coordinator that dies is simply started again. A node that is lost takes its trials with it to the
next one, and no trial is blamed for it; a trial that ends its own process again and again has
failed. What measures runs on nodes that match its target, with the node for itself.
"""

import math
import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from formwright.errors import InputError
from formwright.execute.cluster import MEASURES, Cluster, Request, connect
from formwright.execute.remote import Stages, evaluated, fits, is_quiet, needed, packed, place_of
from formwright.execute.remote import unpack as unpack_files
from formwright.execute.remote import wire as wired
from formwright.study import Answer, Evaluate, Executor, Job, Study
from formwright.study.folder import record_path
from formwright.study.job import one_sentence
from formwright.study.store import Claim, Store

_LEASE = 1e9  # seconds: whether a worker lives is for Ray to say
_REMEMBERED = 64  # folders of earlier trials kept in the cluster's memory, where files travel
_LOOK = 1.0  # seconds between looks at which nodes there are
_SAID = 0.5  # seconds after which a worker that was given a task has said so


@dataclass
class _Try:
    """A trial on its way through its stages."""

    job: Job
    stage: int = 0
    found: dict[str, float] = field(default_factory=dict)  # by earlier stages
    seconds: float = 0.0  # that these took
    losses: int = 0  # workers that died of it, perhaps
    task: Any = None
    node: str = ""  # where it measures
    claim: Claim | None = None
    since: float | None = None  # when this stage began


class Ray(Executor):
    """Workers of a Ray cluster.

    Args:
        evaluate: Sent to every node once. Where it has ``stages``, each is a task of its own, and
            those that are ``quiet`` measure on nodes that they ``fit``.
        workers: At most so many trials at once; fewer where the cluster has no room.
        time_limit: Seconds one trial may take; its worker is then ended and the trial has failed.
        address: Of a cluster, ``auto`` for the one this machine belongs to; nothing starts one.
        request: What one trial takes of a node.
        retries: How often a trial is tried again when its worker died.
        carried: Gives the evaluator with all that it reads, for nodes that do not see the files of
            this machine; without it such nodes must have files of their own.
    """

    records = True

    def __init__(
        self,
        evaluate: Evaluate,
        workers: int = 1,
        *,
        time_limit: float | None = None,
        address: str = "",
        request: Request | None = None,
        retries: int = 2,
        carried: Callable[[], Evaluate] | None = None,
    ) -> None:
        if workers < 1:
            raise InputError(f"{workers} workers were asked for; give 1 or more.")
        self.evaluate, self.workers, self.time_limit = evaluate, workers, time_limit
        self.address, self.request, self.retries = address, request or Request(), retries
        self.carried = carried or (lambda: evaluate)
        self.place = ""  # which disk the study lies on
        self._waiting: list[_Try] = []
        self._running: dict[Any, _Try] = {}
        self._ended: list[Answer] = []
        self._store: Store | None = None
        self._closing = False
        self._news = -math.inf  # when a task was last handed out

    def start(self, study: Study) -> None:
        self._closing, self._study = False, study
        self._cluster = self._connected()
        self._folder = study.folder.absolute()
        self.place = self.place or place_of(self._folder)
        self._key = uuid.uuid4().hex
        self._travels = False  # whether some node does not see the study's folder
        self._shared = self._put(self.evaluate)
        self._sent: OrderedDict[str, Any] = OrderedDict()
        self._measuring = _Measuring(self._cluster, self._key)
        how = {"max_retries": 0, "num_returns": "streaming"}
        self._task = self._cluster.ray.remote(**how)(evaluated)
        self._store = Store(record_path(study.folder))
        self._store.clock_base = self._store.seconds()

    def submit(self, jobs: Sequence[Job]) -> None:
        self._waiting += [_Try(job) for job in jobs]
        self._dispatch()

    def collect(self, timeout: float) -> list[Answer]:
        end = time.monotonic() + timeout
        while not self._ended:
            left = end - time.monotonic()
            self._listen(max(0.0, min(left, 0.1)))
            self._over_time()
            self._dispatch()
            if left <= 0:
                break
        ended, self._ended = self._ended, []
        return ended

    def close(self, patience: float = 0.0) -> list[Answer]:
        self._closing = True
        self._waiting.clear()
        end = time.monotonic() + patience
        while self._running and time.monotonic() < min(end, self._news + _SAID):
            self._listen(0.05)  # what a worker said of late may be on its way
        for one in [t for t in self._running.values() if t.since is None]:
            self._cancel(one)
        while self._running and time.monotonic() < end:  # each leaves when its stage has ended
            self._listen(0.05)
            self._over_time()
        abandoned = list(self._running)
        for one in list(self._running.values()):
            self._cancel(one)
        if abandoned:  # not before they are gone: the next session may write to the same files
            self._cluster.ray.wait(abandoned, num_returns=len(abandoned), timeout=5.0)
        if self._store is not None:
            self._store.close()
            self._store = None
        ended, self._ended = self._ended, []
        return ended

    # --------------------------------------------------------------------------------- sending

    def _connected(self) -> Cluster:
        processors = max(1, math.ceil(self.request.cpus * self.workers))
        cluster = connect(self.address, processors)
        if not cluster.room_for(self.request):
            message = (
                f"No node of the cluster has room for a trial that asks for {self.request.words}."
            )
            if cluster.ours:
                raise InputError(f"{message} Ask for less.")
            warnings.warn(f"{message} Trials wait until one joins.", stacklevel=2)
        return cluster

    def _put(self, evaluate: Any) -> Any:
        """Put what all trials need where every node fetches it once."""
        split = getattr(evaluate, "stages", None)
        self._evaluators = (evaluate,) if split is None else tuple(split())
        stages = Stages(
            self._key,
            self._folder,
            self.place,
            self._evaluators,
            self._study.space,
            self._study.objectives,
        )
        try:
            return self._cluster.ray.put(stages)
        except (TypeError, AttributeError, ValueError) as error:
            raise InputError(
                f"The evaluator or the space cannot be sent to workers: {one_sentence(error)} "
                "Define it at the top of a module, without files or locks held open."
            ) from None

    def _dispatch(self) -> None:
        """Hand out what can be: in order, but a trial that waits to measure stops no other."""
        kept: list[_Try] = []
        for one in [] if self._closing else self._waiting:
            if len(self._running) >= self.workers or not self._send(one):
                kept.append(one)
        self._waiting = kept

    def _send(self, one: _Try) -> bool:
        options = self.request.options()
        if is_quiet(self._evaluators[one.stage], one.job.trial):
            busy = {other.node for other in self._running.values()}
            node = self._measuring.node(self._shared, one.stage, busy)
            if node is None:
                return False
            one.node = node
            options = {"num_cpus": 0, **_on(node)}
        data = wired(one.job, self._study.folder, max(1, int(self.request.cpus)))
        files = self._files(*needed(data)) if self._travels else None
        task = self._task.options(**options)
        one.task = task.remote([self._shared], self._key, data, one.stage, one.found, files)
        self._running[one.task] = one
        self._news = time.monotonic()
        return True

    def _files(self, own: str, *earlier: str) -> list[Any]:
        """The files of a job's folders, in the cluster's memory; ended trials change no more."""
        put = self._cluster.ray.put
        for name in earlier:
            if name not in self._sent:
                self._sent[name] = put(packed(self._study.folder / name))
            self._sent.move_to_end(name)
        found = [put(packed(self._study.folder / own)), *(self._sent[name] for name in earlier)]
        while len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)
        return found

    # ------------------------------------------------------------------------------- listening

    def _listen(self, timeout: float) -> None:
        """Read what workers say, and take note of those that have died."""
        if not self._running:
            time.sleep(timeout)
            return
        ray = self._cluster.ray
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=timeout)
        if ready and len(self._running) > 1:
            ready, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        for task in ready:
            if (one := self._running.get(task)) is not None:
                self._hear(one)

    def _hear(self, one: _Try) -> None:
        errors = self._cluster.ray.exceptions
        try:
            message = self._cluster.ray.get(next(one.task))
        except errors.RayTaskError as error:
            self._broken(one, error.cause or error)
        except (errors.NodeDiedError, errors.LocalRayletDiedError, errors.ObjectLostError):
            self._lost(one, "its node left the cluster", blamed=False)
        except errors.OutOfMemoryError:
            self._lost(one, "it was ended for want of memory")
        except errors.WorkerCrashedError:
            self._lost(one, "its process ended by itself, or was killed")
        except (errors.RayError, StopIteration) as error:
            self._lost(one, one_sentence(error), blamed=False)
        else:
            self._heed(one, message)

    def _heed(self, one: _Try, message: dict[str, Any]) -> None:
        what = message["what"]
        if what == "began":
            one.since = time.monotonic()
            if one.claim is None:
                one.claim = self._claimed(one, message["worker"])
        elif what == "elsewhere":
            if not self._travels:
                self._travels = True
                self._key = uuid.uuid4().hex
                self._shared = self._put(self.carried())
                self._measuring.key = self._key
            self._again(one)
        else:
            if message["files"]:
                unpack_files(one.job.folder, message["files"])
            self._stage_ended(one, message)

    def _stage_ended(self, one: _Try, message: dict[str, Any]) -> None:
        self._forget(one)
        one.seconds += message["seconds"]
        if not message["reason"] and one.stage + 1 < len(self._evaluators):
            one.stage, one.found = one.stage + 1, message["values"]
            self._waiting.insert(0, one)
            return
        number = one.job.trial.number
        answer = Answer(number, message["values"], message["reason"], one.seconds)
        claim = one.claim or self._claimed(one, "a worker")
        if claim is not None:
            self._record.finish(claim, answer.settle(one.job.trial))
        self._ended.append(Answer(number, recorded=True))

    # --------------------------------------------------------------------------- looking after

    @property
    def _record(self) -> Store:
        assert self._store is not None, "start() comes first"
        return self._store

    def _claimed(self, one: _Try, worker: str) -> Claim | None:
        return self._record.claim(worker, _LEASE, number=one.job.trial.number)

    def _lost(self, one: _Try, why: str, *, blamed: bool = True) -> None:
        """A worker is gone: try again, unless the trial has cost too many."""
        one.losses += blamed
        claim = one.claim or self._claimed(one, "a worker")
        given_up = one.losses > self.retries
        if claim is not None:
            self._record.lose(claim, why, retries=0 if given_up else 2**31)
        one.claim = None
        if given_up:
            self._forget(one)
            self._ended.append(Answer(one.job.trial.number, recorded=True))
        else:
            self._again(one)

    def _broken(self, one: _Try, error: BaseException) -> None:
        """What surrounds the evaluator went wrong: the node's disk, or what is installed there."""
        if isinstance(error, OSError):
            self._lost(one, f"its node cannot work: {one_sentence(error)}")
            return
        raise InputError(
            f"Workers of the cluster cannot begin: {one_sentence(error)} Most often the evaluator, "
            "or formwright itself, is not installed on every node."
        )

    def _over_time(self) -> None:
        if self.time_limit is None:
            return
        for one in list(self._running.values()):
            if one.since is None or one.claim is None:
                continue
            if time.monotonic() - one.since + one.seconds > self.time_limit:
                self._cancel(one)
                why = f"it took longer than the time limit of {self.time_limit:g} s"
                self._record.lose(one.claim, why, retries=0)
                self._ended.append(Answer(one.job.trial.number, recorded=True))

    def _cancel(self, one: _Try) -> None:
        task = one.task
        self._forget(one)
        with suppress(Exception):  # it may have ended, or its node may be gone
            self._cluster.ray.cancel(task, force=True)

    def _again(self, one: _Try) -> None:
        self._forget(one)
        self._waiting.insert(0, one)

    def _forget(self, one: _Try) -> None:
        self._running.pop(one.task, None)
        one.task, one.node, one.since = None, "", None


class _Measuring:
    """Which nodes may be measured on: those kept free for it, or else all that match."""

    def __init__(self, cluster: Cluster, key: str) -> None:
        self.cluster, self.key = cluster, key
        self._asked: dict[tuple[str, int], Any] = {}
        self._known: dict[tuple[str, int], bool] = {}
        self._looked, self._nodes = -math.inf, list[str]()
        self._task = cluster.ray.remote(max_retries=0, num_cpus=0)(fits)

    def node(self, shared: Any, stage: int, busy: set[str]) -> str | None:
        """One that matches and on which nothing of ours is measured; None while there is none."""
        self._look()
        for node in self._nodes:
            at = (node, stage)
            if at not in self._known and at not in self._asked:
                task = self._task.options(**_on(node))
                self._asked[at] = task.remote([shared], self.key, stage)
        self._listen()
        answers = [self._known.get((node, stage)) for node in self._nodes]
        if answers and not any(answer is not False for answer in answers):
            raise InputError(
                f"None of the {len(answers)} nodes that may be measured on matches the target: its "
                "fingerprint is that of another machine or version. Add such a node, or calibrate "
                "the target on a node of the cluster."
            )
        free = (n for n in self._nodes if self._known.get((n, stage)) and n not in busy)
        return next(free, None)

    def _look(self) -> None:
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            nodes = self.cluster.nodes()
            kept = [n for n, about in nodes.items() if about["Resources"].get(MEASURES)]
            self._nodes = kept or list(nodes)

    def _listen(self) -> None:
        ray = self.cluster.ray
        for at, task in list(self._asked.items()):
            if ray.wait([task], timeout=0)[0]:
                del self._asked[at]
                with suppress(*_gone(ray.exceptions)):
                    self._known[at] = bool(ray.get(task))


def _gone(errors: Any) -> tuple[type[Exception], ...]:
    """What is raised where a node has left, or never was there when its task came."""
    return errors.NodeDiedError, errors.WorkerCrashedError, errors.TaskUnschedulableError


def _on(node: str) -> dict[str, Any]:
    """Options that put a task on a node and nowhere else."""
    from ray.util.scheduling_strategies import (  # noqa: PLC0415  # optional
        NodeAffinitySchedulingStrategy,
    )

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=False)}
