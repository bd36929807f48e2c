"""Measured latency of architectures: always against a reference, on one target.

The ratio to the reference is what is measured well. Milliseconds are the ratio times what the
reference takes on the target: its calibrated time where the target has one (``calibrate``),
otherwise the time of the quietest moments when this meter was made. So all milliseconds of one
meter, or of one calibrated target on all days, are on one scale.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

import torch

from formwright.arch import Architecture, from_json, parse
from formwright.cost.machine import fingerprint
from formwright.cost.paired import (
    Ratio,
    Run,
    alternate,
    clock_for,
    low_quantile,
    notes_on,
    repeats_for,
    timed,
    warm_up,
)
from formwright.cost.runtime import new_arena, prepare
from formwright.cost.target import Target

# Runs in every phase on every runtime, at any length, in about ten milliseconds.
DEFAULT_REFERENCE = (
    "(sf)x4 where s=residual(attention(4)), f=residual(feedforward(1024)) "
    "in decoder(256) for frame(1000, 128, lm)"
)


@dataclass(frozen=True)
class Latency:
    """What was measured of one architecture.

    Attributes:
        ms: Milliseconds of one run: ``ratio`` times what the reference takes.
        ratio: Its time over the reference's.
        low: Lower end of the ratio's 95 % interval.
        high: Upper end.
        rounds: How many pairs of times it is made from.
        notes: What speaks against trusting it, in words; empty when nothing does.
        own_ms: The time of its own quietest rounds in this measurement.
        seconds: Wall time it took to build and measure.
    """

    ms: float
    ratio: float
    low: float
    high: float
    rounds: int
    notes: tuple[str, ...] = ()
    own_ms: float = 0.0
    seconds: float = 0.0


class Meter:
    """Measures one architecture after the other on a target, keeping the reference built.

    Args:
        target: Where and how models run.
        reference: What times are taken against; the target's own, or the built-in one, when not
            given. One that takes about as long as what is measured gives the narrowest intervals.
        calibration: Seconds to find what the reference takes, where the target does not say.
    """

    def __init__(
        self,
        target: Target | None = None,
        reference: Architecture | None = None,
        *,
        calibration: float = 0.5,
    ) -> None:
        self.target = target or Target()
        self._notes = self.target.check_here()
        own = reference if reference is not None else reference_of(self.target)
        known = self.target.reference_ms if own == reference_of(self.target) else None
        self.reference = own
        with using_threads(self.target.threads):
            self._run = prepare(own, self.target)
            self._arena = new_arena(self.target)
            self.reference_ms = known or _quiet_ms(self._run, calibration, self.target.threads)

    def measure(
        self, arch: Architecture, *, seconds: float = 1.0, precision: float = 0.02, seed: int = 0
    ) -> Latency:
        """Build an architecture and time it against the reference.

        Args:
            arch: What to measure; it needs its frame.
            seconds: Of timing at most; building comes on top.
            precision: Width of the ratio's interval at which to stop, relative to the ratio.
            seed: Of the order in which the two take turns.
        """
        begin = perf_counter()
        threads = self.target.threads
        with using_threads(threads), _steady():
            self._arena.reset()
            run = prepare(arch, self.target, self._arena)
            rounds = alternate(
                run,
                self._run,
                seconds=seconds,
                precision=precision,
                seed=seed,
                clock=clock_for(threads),
            )
        ratio = rounds.ratio()
        return Latency(
            ms=ratio.value * self.reference_ms,
            ratio=ratio.value,
            low=ratio.low,
            high=ratio.high,
            rounds=len(rounds),
            notes=self._notes + notes_on(rounds, threads, precision),
            own_ms=1e3 * low_quantile(rounds.candidate),
            seconds=perf_counter() - begin,
        )


def reference_of(target: Target) -> Architecture:
    """The architecture that a target's times are taken against."""
    text = target.reference or DEFAULT_REFERENCE
    return from_json(text) if text.lstrip().startswith("{") else parse(text)


def calibrate(target: Target, *, seconds: float = 5.0) -> Target:
    """The target bound to this machine, with the time its reference takes here."""
    with using_threads(target.threads):
        run = prepare(reference_of(target), target)
        found = _quiet_ms(run, seconds, target.threads)
    return target.replace(fingerprint=fingerprint(target.runtime), reference_ms=found)


def compare(
    arch: Architecture,
    against: Architecture,
    target: Target | None = None,
    *,
    seconds: float = 5.0,
    precision: float = 0.02,
) -> Latency:
    """How long an architecture takes relative to another."""
    return Meter(target, against).measure(arch, seconds=seconds, precision=precision)


def compare_targets(
    arch: Architecture, target: Target, against: Target, *, seconds: float = 3.0
) -> Ratio:
    """How long an architecture takes on one target relative to another on this machine."""
    target.check_here()
    with using_threads(target.threads), _steady():
        runs = [prepare(arch, each) for each in (target, against)]
        rounds = alternate(
            runs[0],
            runs[1],
            seconds=seconds,
            precision=0.02,
            seed=0,
            clock=clock_for(target.threads),
        )
    return rounds.ratio()


def measure(
    archs: Sequence[Architecture],
    target: Target | None = None,
    *,
    against: Architecture | None = None,
    seconds: float = 1.0,
    precision: float = 0.02,
) -> list[Latency]:
    """Measure several architectures on one target, ``seconds`` each at most."""
    meter = Meter(target, against)
    return [meter.measure(arch, seconds=seconds, precision=precision) for arch in archs]


def _quiet_ms(run: Run, seconds: float, threads: int) -> float:
    """Milliseconds of the quietest tenth of many runs."""
    clock = clock_for(threads)
    usual = warm_up((run,), seconds / 3, clock)
    (repeats,) = repeats_for(usual)
    times: list[float] = []
    begin = perf_counter()
    while perf_counter() - begin < seconds or len(times) < 3:
        times.append(timed(run, repeats, clock))
    return 1e3 * low_quantile(times)


@contextmanager
def using_threads(number: int) -> Iterator[None]:
    """So many threads of torch for the time being."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _steady() -> Iterator[None]:
    """Without the garbage collector, which would stop some rounds and not others."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
