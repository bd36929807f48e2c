"""Latency of architectures at several lengths, and with several threads."""

from formwright.arch import Architecture
from formwright.cost.curve import Point
from formwright.cost.machine import cores
from formwright.cost.meter import Meter
from formwright.cost.target import Target
from formwright.errors import InputError, SpecError

_FACTORS = (0.25, 0.5, 1, 2, 4)


def over_lengths(
    archs: dict[str, Architecture],
    target: Target,
    *,
    against: Architecture | None = None,
    seconds: float = 1.0,
) -> dict[str, list[Point]]:
    """Each architecture at a quarter of the target's length, up to four times as long.

    Lengths that an architecture cannot read are left out.
    """
    lengths = sorted({max(1, round(factor * target.length)) for factor in _FACTORS})
    found: dict[str, list[Point]] = {name: [] for name in archs}
    for length in lengths:
        # in decoding, what grows is the text so far
        change = {"past": length} if target.phase == "decode" else {"length": length}
        there = target.replace(**change, reference_ms=None)
        try:
            meter = Meter(there, against)
        except (SpecError, InputError):
            meter = Meter(there)
        for name, arch in archs.items():
            try:
                latency = meter.measure(arch, seconds=seconds)
            except (SpecError, InputError):
                continue
            scale = meter.reference_ms
            found[name].append(Point(length, latency.ms, latency.low * scale, latency.high * scale))
    curves = {name: points for name, points in found.items() if points}
    if not curves:
        raise InputError(
            f"None of the lengths {lengths} can be read by these architectures; "
            "give another one, such as --target length=64."
        )
    return curves


def over_threads(
    archs: dict[str, Architecture],
    target: Target,
    *,
    against: Architecture | None = None,
    seconds: float = 1.0,
) -> dict[str, list[Point]]:
    """Each architecture with one thread, two, four and so on, up to the cores that are there.

    In the points, the length is the number of threads.
    """
    counts = [1]
    while counts[-1] * 2 <= cores():
        counts.append(counts[-1] * 2)
    found: dict[str, list[Point]] = {name: [] for name in archs}
    for threads in counts:
        meter = Meter(target.replace(threads=threads, reference_ms=None), against)
        for name, arch in archs.items():
            latency = meter.measure(arch, seconds=seconds)
            scale = meter.reference_ms
            ends = (latency.low * scale, latency.high * scale)
            found[name].append(Point(threads, latency.ms, *ends))
    return found
