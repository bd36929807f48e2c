"""Workers that exist only on a clock of their own: to plan a search before machines are paid for.

The loop, the strategy and the record are the real ones; only time and workers are made up. A trial
takes as long as a ``World`` says, some workers straggle, some are lost and their trial begins anew,
and the next result comes at once, whenever that would have been. So a week of ten thousand workers
takes minutes, and shows how well they would be used and what they would find.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from formwright.errors import InputError
from formwright.study import Answer, Evaluate, Executor, Job, Study
from formwright.study.job import attempt

_GROUPED = 0.1  # seconds of a real clock: results are recorded several at once


@dataclass(frozen=True)
class World:
    """How long trials take, and what goes wrong.

    Args:
        seconds: Of a trial at its usual length, in the middle of all trials.
        spread: How much trials differ: the standard deviation of the logarithm of their times.
        straggling: Share of trials that take ``slower`` times as long: a busy or a slow machine.
        slower: How many times as long those take.
        lost: Workers lost in an hour of one worker's work; its trial begins anew.
        away: Seconds until a lost worker is replaced.
        usual: Training steps of a trial that takes ``seconds``; others take their share.
        seed: Of all chance.
    """

    seconds: float = 600.0
    spread: float = 0.3
    straggling: float = 0.02
    slower: float = 5.0
    lost: float = 0.01
    away: float = 120.0
    usual: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seconds <= 0 or self.slower < 1 or min(self.spread, self.lost, self.away) < 0:
            raise InputError(
                f"A world with trials of {self.seconds} s that straggle by {self.slower} and "
                f"{self.lost} losses an hour cannot be; times are above 0, a straggler is no "
                "faster than others, and nothing is below 0."
            )
        if not 0 <= self.straggling <= 1:
            raise InputError(f"A share of {self.straggling} stragglers is not between 0 and 1.")

    def duration(self, job: Job, rng: Random) -> float:
        """Seconds that a trial takes, if nothing happens to its worker."""
        taken = self.seconds * math.exp(rng.gauss(0.0, self.spread))
        if self.usual and job.trial.steps is not None:
            taken *= job.trial.steps / self.usual
        return taken * (self.slower if rng.random() < self.straggling else 1.0)


class Simulated(Executor):
    """As many workers as wished, on a made-up clock.

    Args:
        evaluate: What trials come to; it should cost next to nothing.
        workers: How many.
        time_limit: Seconds of the made-up clock that a trial may take.
        world: How long trials take.
    """

    patience = _GROUPED

    def __init__(
        self,
        evaluate: Evaluate,
        workers: int = 1,
        *,
        time_limit: float | None = None,
        world: World | None = None,
        on_answer: Callable[[float, Answer], None] | None = None,
    ) -> None:
        if workers < 1:
            raise InputError(f"{workers} workers were asked for; give 1 or more.")
        self.evaluate, self.workers, self.time_limit = evaluate, workers, time_limit
        self.world, self.on_answer = world or World(), on_answer
        self.clock = 0.0  # seconds that have gone by
        self.busy = 0.0  # seconds of workers with a trial, also with one that was lost later
        self.wasted = 0.0  # those that were lost
        self.losses = 0
        self._free, self._away = workers, 0
        self._queue: deque[tuple[Job, int]] = deque()  # with how often it was begun before
        # When, an order for ties, what ends then (None: a lost worker is back), its try and cost.
        self._events: list[tuple[float, int, Job | None, int, float]] = []
        self._order = 0

    @property
    def used(self) -> float:
        """The share of all workers' time in which they had a trial."""
        return self.busy / max(1e-9, self.workers * self.clock)

    def start(self, study: Study) -> None:
        self.objectives = study.objectives

    def submit(self, jobs: Sequence[Job]) -> None:
        self._queue.extend((job, 0) for job in jobs)
        self._begin()

    def collect(self, timeout: float) -> list[Answer]:
        while self._events:
            then, _, job, tries, cost = heapq.heappop(self._events)
            self.busy += (self.workers - self._free - self._away) * (then - self.clock)
            self.clock = then
            if job is None:  # a worker that was lost is replaced
                self._away -= 1
                self._free += 1
                self._begin()
            elif tries < 0:  # lost on the way: the trial waits, its worker is away for a while
                self._away += 1
                self.losses += 1
                self.wasted += cost
                self._queue.appendleft((job, -tries))
                self._later(self.world.away, None, 0, 0.0)
            else:
                self._free += 1
                self._begin()
                return [self._answered(job, cost)]
        return []

    def close(self, patience: float = 0.0) -> list[Answer]:
        self._queue.clear()
        self._events.clear()
        return []

    def _answered(self, job: Job, cost: float) -> Answer:
        if self.time_limit is not None and cost >= self.time_limit:
            reason = f"It took longer than the time limit of {self.time_limit:g} s."
            answer = Answer(job.trial.number, reason=reason, seconds=cost)
        else:
            found = attempt(self.evaluate, job, self.objectives)
            answer = Answer(found.number, found.values, found.reason, cost)
        if self.on_answer is not None:
            self.on_answer(self.clock, answer)
        return answer

    def _begin(self) -> None:
        """Give waiting trials to free workers."""
        while self._free and self._queue:
            job, tries = self._queue.popleft()
            self._free -= 1
            rng = Random(f"{self.world.seed}/{job.trial.number}/{tries}")
            taken = self.world.duration(job, rng)
            if self.time_limit is not None:
                taken = min(taken, self.time_limit)
            lost = rng.expovariate(self.world.lost / 3600) if self.world.lost else math.inf
            if lost < taken:
                self._later(lost, job, -(tries + 1), lost)
            else:
                self._later(taken, job, tries, taken)

    def _later(self, seconds: float, job: Job | None, tries: int, cost: float) -> None:
        self._order += 1
        heapq.heappush(self._events, (self.clock + seconds, self._order, job, tries, cost))
