"""What a user asks of a student: how fast or how small it must be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from formwright.errors import InputError

SPEEDUP, LATENCY, PARAMS, FLOPS = "speedup", "latency", "params", "flops"
_KINDS = (SPEEDUP, LATENCY, PARAMS, FLOPS)


@dataclass(frozen=True)
class Limit:
    """Bounds that one student keeps together.

    Args:
        asked: ``speedup`` (at least), ``latency`` in milliseconds, ``params`` or ``flops`` (at
            most), each to its bound.
    """

    asked: tuple[tuple[str, float], ...]

    @property
    def text(self) -> str:
        """As plain text that ``read`` reads: ``speedup=2,params=5e+06``."""
        return ",".join(f"{kind}={value:g}" for kind, value in self.asked)

    @property
    def words(self) -> str:
        """For people."""
        return " and ".join(_WORDS[kind](value) for kind, value in self.asked)

    @classmethod
    def read(cls, text: str) -> "Limit":
        """The inverse of ``text``."""
        found = []
        for part in text.split(","):
            kind, _, value = part.partition("=")
            try:
                number = float(value)
            except ValueError:
                number = 0.0
            if kind not in _KINDS or not number > 0:
                raise InputError(
                    f"{part!r} is no limit of a student; write speedup=2, latency=5 (ms), "
                    "params=5e6 or flops=1e9."
                )
            if kind == SPEEDUP and number <= 1:
                raise InputError(f"speedup={value} asks for no faster model; give more than 1.")
            found.append((kind, number))
        return cls(tuple(found))

    def most(self, teacher: Mapping[str, float]) -> dict[str, float]:
        """The most that each price may be, given what the teacher costs."""
        found: dict[str, float] = {}
        for kind, value in self.asked:
            name = LATENCY if kind == SPEEDUP else kind
            most = teacher[LATENCY] / value if kind == SPEEDUP else value
            found[name] = min(most, found.get(name, most))
        return found


_WORDS = {
    SPEEDUP: lambda value: f"{value:g} times as fast",
    LATENCY: lambda value: f"at most {value:g} ms",
    PARAMS: lambda value: f"at most {value / 1e6:g}M parameters",
    FLOPS: lambda value: f"at most {value / 1e9:g} GFLOP",
}


def family(
    speedups: Sequence[float] = (),
    latencies: Sequence[float] = (),
    params: Sequence[float] = (),
    flops: Sequence[float] = (),
) -> tuple[Limit, ...]:
    """All limits of one call: bounds of one kind make a family, those of different kinds hold
    together.

    >>> [limit.text for limit in family(speedups=(2, 3), params=(5e6,))]
    ['speedup=2,params=5e+06', 'speedup=3,params=5e+06']
    """
    given = zip(_KINDS, (speedups, latencies, params, flops), strict=True)
    columns = [[(kind, float(v)) for v in values] for kind, values in given if values]
    if not columns:
        return ()
    return tuple(Limit.read(Limit(row).text) for row in product(*columns))
