"""Energy of one run, from the counters of the processor (RAPL), where they can be read."""

from time import perf_counter

from formwright.arch import Architecture
from formwright.cost.machine import energy_counters
from formwright.cost.paired import Run
from formwright.cost.runtime import prepare
from formwright.cost.target import Target


def energy_per_run(arch: Architecture, target: Target, *, seconds: float = 2.0) -> float | None:
    """Joules of one run, all processors of the machine together; None without counters.

    What the machine needs anyway is included, so use it on a quiet one.
    """
    if not energy_counters():
        return None
    run = prepare(arch, target)
    run()
    return joules_of(run, seconds)


def joules_of(run: Run, seconds: float) -> float | None:
    """Joules of one call, from as many as fit into some seconds."""
    counters = energy_counters()
    before = [int(counter.read_text()) for counter in counters]
    begin, calls = perf_counter(), 0
    while perf_counter() - begin < seconds or calls == 0:
        run()
        calls += 1
    used = 0
    for counter, start in zip(counters, before, strict=True):
        now = int(counter.read_text())
        if now < start:  # the counter went round
            now += int((counter.parent / "max_energy_range_uj").read_text())
        used += now - start
    return used / 1e6 / calls if counters else None
