"""A machine whose times are counted and not taken, so that what is measured on it repeats."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from formwright.arch import Architecture
from formwright.arch.counting import count
from formwright.cost import meter
from formwright.cost.memory import Memory, MemoryMeter
from formwright.cost.meter import Latency, Meter
from formwright.cost.target import Target
from formwright.train import pace


@contextmanager
def counted_clock() -> Iterator[None]:
    """Have latency, memory and steps follow from counts in place of clocks, in this process."""
    with (
        patch.object(meter, "_quiet_ms", lambda *ignored: 10.0),
        patch.object(Meter, "measure", _latency),
        patch.object(MemoryMeter, "measure", _memory),
        patch.object(pace, "step_seconds", lambda *ignored, **more: (0.01, 1.0)),
        patch.object(pace, "step_ratio", _ratio),
    ):
        yield


def _latency(self: Meter, arch: Architecture, **ignored: Any) -> Latency:
    ratio = _work(arch, self.target) / _work(self.reference, self.target)
    return Latency(10 * ratio, ratio, 0.99 * ratio, 1.01 * ratio, 9)


def _ratio(arch: Architecture, reference: Architecture, *ignored: Any, **more: Any) -> float:
    ours, theirs = (count(each, length=16).flops for each in (arch, reference))
    return round(ours / theirs, 3)


def _work(arch: Architecture, target: Target) -> float:
    """FLOPs, and something for every node."""
    counted = count(arch, length=target.new_tokens, past=target.past)
    return counted.flops + 2e5 * sum(1 for _ in arch.walk())


def _memory(self: MemoryMeter, arch: Architecture) -> Memory:
    return Memory(peak_bytes=4 * count(arch).params, baseline_bytes=0)
