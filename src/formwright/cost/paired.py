"""Two functions timed in alternation, and what their ratio is, with an interval.

A shared machine is slower at one moment than at the next, but for both functions alike. So each
round times both, one right after the other and in random order; a round's log ratio is one
observation, and slow phases cancel. The ratio is the pseudo-median of all rounds
(Hodges-Lehmann), the interval that of Wilcoxon's signed-rank test: it assumes nothing of the
noise but that swapping the two would mirror it, which the random order brings about. In
simulations it was a tenth to a fifth narrower than the order-statistic interval of the median at
the same coverage, and as wide where a tenth of the calls or more were interrupted.

Measuring stops when the interval is narrow enough. That favours moments at which it is narrow by
luck, so it is looked at only a few times, at growing numbers of rounds, and computed at 98 %,
of which at least 95 % remain (tests simulate this).
"""

import math
import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Run = Callable[[], object]
Clock = Callable[[], float]

_SHORTEST, _LONGEST = 2e-3, 50e-3  # seconds one function should run within one round
_LEAST = 3  # rounds in any case, however long they take
_FEWEST = 10  # rounds before the interval is looked at for the first time
_GROWTH = 1.4  # how many more rounds there are at each next look
_NORMAL_98 = 2.326  # two-sided 98 % quantile of the normal distribution
_STUDENT_98 = (31.82, 6.965, 4.541, 3.747, 3.365, 3.143)  # of Student's t, 2 to 7 rounds
_PATIENCE = 3  # times as much wall time as processor time was asked for, on a busy machine
_MOST = 2000  # rounds; more would only cost memory


@dataclass(frozen=True)
class Ratio:
    """How much longer one function takes than another, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """From the lower to the upper end, relative to the value."""
        return (self.high - self.low) / self.value


@dataclass
class Rounds:
    """The times of all rounds, in seconds per call."""

    candidate: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    seconds: float = 0.0  # wall time of all rounds together
    cpu_seconds: float = 0.0  # processor time of this process in them
    load: float = 0.0  # running processes of the whole machine, when it ended

    def __len__(self) -> int:
        return len(self.candidate)

    @property
    def log_ratios(self) -> list[float]:
        """One observation per round."""
        pairs = zip(self.candidate, self.reference, strict=True)
        return [math.log(a / b) for a, b in pairs]

    def ratio(self) -> Ratio:
        """The ratio over all rounds, with its interval."""
        return ratio_of(self.log_ratios)


def alternate(
    candidate: Run,
    reference: Run,
    *,
    seconds: float,
    precision: float,
    seed: int = 0,
    clock: Clock = time.perf_counter,
    wall: Clock = time.perf_counter,
    cpu: Clock = time.process_time,
) -> Rounds:
    """Time both in alternation until the interval is ``precision`` wide or time is up.

    Args:
        candidate: What is measured.
        reference: What it is measured against.
        seconds: Time at most by ``clock``, warming up included; three rounds are made in any
            case. Where processor time is measured and others have the processor, wall time may
            be up to three times as long.
        precision: Width of the interval, relative to the ratio, at which to stop.
        seed: Of the order within rounds.
        clock: What both are timed with (see ``clock_for``).
        wall: Wall time.
        cpu: Processor time of this process.
    """
    rng = random.Random(seed)
    begin, wall_begin = clock(), wall()
    usual = warm_up((candidate, reference), seconds / 3, clock, wall)
    repeats = repeats_for(usual)
    pair = ((candidate, repeats[0]), (reference, repeats[1]))
    rounds, look = Rounds(), float(_FEWEST)  # at how many rounds the interval is looked at next
    start, cpu_start = wall(), cpu()
    while len(rounds) < _MOST:
        times = [0.0, 0.0]
        for side in rng.sample((0, 1), 2):
            times[side] = timed(*pair[side], clock)
        rounds.candidate.append(times[0])
        rounds.reference.append(times[1])
        if len(rounds) >= round(look):
            look *= _GROWTH
            if rounds.ratio().width <= precision:
                break
        late = clock() - begin >= seconds or wall() - wall_begin >= _PATIENCE * seconds
        if late and len(rounds) >= _LEAST:
            break
    rounds.seconds, rounds.cpu_seconds = wall() - start, cpu() - cpu_start
    rounds.load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return rounds


def clock_for(threads: int) -> Clock:
    """What to time with on a shared machine.

    One thread is timed in processor time, which stands still while another process has the
    processor: on an idle machine it equals wall time, on a busy one the intervals were two to
    three times narrower around the same ratio. Several threads need wall time.
    """
    return time.process_time if threads == 1 else time.perf_counter


def warm_up(
    runs: tuple[Run, ...], seconds: float, clock: Clock, wall: Clock = time.perf_counter
) -> list[float]:
    """Call all in turn until none gets faster any more; the result is seconds per call.

    The first calls allocate, choose kernels and fill caches. Warm is when the best of the last
    two is no better than the best before them.
    """
    times: list[list[float]] = [[] for _ in runs]
    begin = wall()
    while True:
        for run, found in zip(runs, times, strict=True):
            if not _settled(found):
                found.append(timed(run, 1, clock))
        if all(_settled(found) for found in times) or wall() - begin >= seconds:
            return [statistics.median(found[-2:]) for found in times]


def _settled(times: list[float]) -> bool:
    return len(times) > 3 and min(times[-2:]) > 0.97 * min(times[1:-2])


def repeats_for(usual: list[float]) -> list[int]:
    """Calls of each in a round: long enough for the clock, and equally long for both.

    A short one beside a long one would see another mood of the machine.
    """
    length = min(max(_SHORTEST, *usual), _LONGEST)
    return [max(1, round(length / max(seconds, 1e-7))) for seconds in usual]


def timed(run: Run, repeats: int, clock: Clock) -> float:
    """Seconds of one call, from a number of them."""
    start = clock()
    for _ in range(repeats):
        run()
    return max((clock() - start) / repeats, 1e-9)  # a coarse clock may not have moved


def ratio_of(log_ratios: list[float]) -> Ratio:
    """Hodges-Lehmann estimate and signed-rank interval of a number of log ratios."""
    values = np.asarray(log_ratios, dtype=np.float64)
    number = len(values)
    rows, columns = np.triu_indices(number)
    means = np.sort((values[rows] + values[columns]) / 2)  # of every pair, itself included
    middle, pairs = float(np.median(means)), len(means)
    if number < 2:
        return Ratio(math.exp(middle), 0.0, math.inf)
    if number - 2 < len(_STUDENT_98):  # too few for ranks
        reach = _STUDENT_98[number - 2] * float(values.std(ddof=1)) / math.sqrt(number)
        return _ratio(middle, middle - reach, middle + reach)
    spread = math.sqrt(number * (number + 1) * (2 * number + 1) / 24)
    cut = max(0, math.floor(pairs / 2 - _NORMAL_98 * spread))
    return _ratio(middle, float(means[cut]), float(means[pairs - 1 - cut]))


def _ratio(middle: float, low: float, high: float) -> Ratio:
    low, high = (min(max(end, middle - 20), middle + 20) for end in (low, high))
    return Ratio(math.exp(middle), math.exp(low), math.exp(high))


def low_quantile(times: list[float], share: float = 0.1) -> float:
    """A time that only the quietest moments reach: noise only ever adds."""
    ordered = sorted(times)
    return ordered[int(share * (len(ordered) - 1))]


def notes_on(rounds: Rounds, threads: int = 1, precision: float = 0.02) -> tuple[str, ...]:
    """What speaks against trusting the figures, in words."""
    notes = []
    width = rounds.ratio().width
    if width > 1.5 * precision:
        notes.append(
            f"time was up at {len(rounds)} rounds with an interval {width:.1%} wide, "
            f"not {precision:.1%}: give it more seconds"
        )
    drift = _drift(rounds)
    if drift is not None:
        notes.append(f"the machine changed speed by {drift:.0%} while measuring")
    if rounds.seconds and rounds.cpu_seconds / rounds.seconds < 0.9:
        share = rounds.cpu_seconds / rounds.seconds
        notes.append(f"this process got only {share:.0%} of one processor: others were running")
    others = rounds.load - threads
    if others > 0.5 * (os.cpu_count() or 1):
        notes.append(f"the machine was busy with other work (load {rounds.load:.1f})")
    return tuple(notes)


def _drift(rounds: Rounds) -> float | None:
    """How much slower or faster the second half was, where that is more than chance."""
    half = len(rounds) // 2
    if half < 5:
        return None
    first, second = rounds.reference[:half], rounds.reference[half:]
    change = abs(math.log(statistics.median(second) / statistics.median(first)))
    return change if change > 0.05 else None
