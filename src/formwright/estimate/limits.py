"""Limits that are looked at before anything is trained."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from formwright.arch import Architecture
from formwright.arch.counting import count
from formwright.cost import Target
from formwright.errors import FormwrightError
from formwright.estimate.base import Check
from formwright.estimate.cost import meter_for

_UNITS = {"latency": " ms", "memory": " bytes"}


class OverLimit(FormwrightError):
    """A trial that breaks a limit, and is not trained.

    Args:
        message: Which limit, and by how much.
        values: What was measured, for whoever learns from it.
    """

    def __init__(self, message: str, values: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.values = dict(values or {})


@dataclass(frozen=True)
class Within(Check):
    """Refuses what is over a limit, by the upper end of what was measured.

    Args:
        limits: Name of a value to the most it may be.
    """

    limits: Mapping[str, float] = field(default_factory=dict)

    def check(self, found: Mapping[str, float]) -> None:
        for name, most in self.limits.items():
            value = found.get(name)
            if value is None:
                continue
            high = found.get(f"{name}_high", value)
            if high > most:
                unit = _UNITS.get(name, "")
                up_to = f" (up to {high:.4g})" if high > value else ""
                said = f"{name} {value:.4g}{unit}{up_to} is over the limit of {most:g}{unit}"
                raise OverLimit(said, found)


def keeps(limits: Mapping[str, float], target: Target | None) -> Callable[[Architecture], bool]:
    """Whether an architecture keeps limits: counted where that is enough, else measured."""

    def fits(arch: Architecture) -> bool:
        load = {} if target is None else {"length": target.new_tokens, "past": target.past}
        counts = count(arch, **load)
        known = {"params": float(counts.params), "flops": float(counts.flops)}
        if any(known[name] > most for name, most in limits.items() if name in known):
            return False
        most = limits.get("latency")
        if most is None or target is None:
            return True
        found = meter_for(target).measure(arch, seconds=0.6, precision=0.03)
        return bool(found.ms * found.high / found.ratio <= most)

    return fits
