"""Evaluates in this process, one job after the other, or a batch at a time.

A trial that ends this process ends the search with it. The next session begins it again, and the
one after that. When three have died over the same trial, the fourth evaluates in a worker process,
which the search survives, and passes the trial over if it is to blame (see ``execute.processes``).
"""

import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from formwright.errors import InputError
from formwright.execute.processes import Processes
from formwright.study import Answer, Evaluate, Executor, Job, Study
from formwright.study.folder import record_path
from formwright.study.job import attempt, judge
from formwright.study.store import ALONE, Store

_FREE = 0.1  # seconds: what a free evaluator may have to repeat after a crash


class Serial(Executor):
    """The simplest executor, and the fastest for evaluators that cost little.

    Args:
        evaluate: See ``formwright.study.job``.
        workers: This process alone.
        time_limit: None, since nobody would end a trial.
    """

    def __init__(
        self, evaluate: Evaluate, workers: int = 1, *, time_limit: float | None = None
    ) -> None:
        if workers != 1 or time_limit is not None:
            raise InputError(
                f"workers={workers} and time_limit={time_limit} need the executor 'processes'; "
                "'serial' evaluates in this process, for as long as it takes."
            )
        self.evaluate = evaluate
        self.batch = int(getattr(evaluate, "batch", 1))
        self.patience = _FREE if getattr(evaluate, "free", False) else 0.0
        self._jobs: deque[Job] = deque()
        self._worker: Processes | None = None
        self._deadly: set[int] = set()

    def start(self, study: Study) -> None:
        self.objectives = study.objectives
        with closing(Store(record_path(study.folder))) as store:
            suspects = store.suspects()
        if not suspects:
            return
        worker = Processes(self.evaluate, 1)
        try:
            worker.start(study)
        except InputError:  # it cannot be handed to another process
            worker.close()
            self._deadly = {n for n, losses in suspects.items() if losses >= 2 * ALONE}
        else:
            self._worker, self.records, self.patience = worker, True, 0.0

    def submit(self, jobs: Sequence[Job]) -> None:
        if self._worker is not None:
            self._worker.submit(jobs)
        else:
            self._jobs.extend(jobs)

    def collect(self, timeout: float) -> list[Answer]:
        if self._worker is not None:
            return self._worker.collect(timeout)
        if self._jobs and self._jobs[0].trial.number in self._deadly:
            reason = "The process that tried it died each time, and it cannot be tried in another."
            return [Answer(self._jobs.popleft().trial.number, reason=reason)]
        if not self._jobs:
            time.sleep(timeout)
            return []
        many = getattr(self.evaluate, "evaluate_many", None)
        if many is None:
            return [attempt(self.evaluate, self._jobs.popleft(), self.objectives)]
        jobs = [self._jobs.popleft() for _ in range(min(self.batch, len(self._jobs)))]
        return self._together(many, jobs)

    def close(self, patience: float = 0.0) -> list[Answer]:
        self._jobs.clear()
        return self._worker.close(patience) if self._worker is not None else []

    def _together(self, many: Any, jobs: list[Job]) -> list[Answer]:
        began = time.perf_counter()
        try:
            found = list(many(jobs))
        except Exception:  # one of them spoils it for the others: find out which
            return [attempt(self.evaluate, job, self.objectives) for job in jobs]
        each = (time.perf_counter() - began) / len(jobs)
        if len(found) != len(jobs):
            found = [ValueError(f"{len(found)} results came for {len(jobs)} jobs")] * len(jobs)
        return [judge(f, j, self.objectives, each) for f, j in zip(found, jobs, strict=True)]
