"""Limits on what can be counted or seen without building: parameters, FLOPs, kinds of layers."""

from collections.abc import Callable
from typing import Any, Literal

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.conv import Convolution
from formwright.arch.counting import count
from formwright.arch.node import node
from formwright.errors import SpecError
from formwright.space.constraint import Constraint

Countable = Literal["params", "decoder_params", "flops", "activations", "layers"]

_COUNTS: dict[str, Callable[[Architecture], int]] = {
    "params": lambda arch: count(arch).params,
    "decoder_params": lambda arch: count(arch).non_embedding,
    "flops": lambda arch: count(arch).flops,
    "activations": lambda arch: count(arch).activation_bytes(),
    "layers": lambda arch: sum(len(stack.layers) for _, stack, _ in arch.stacks()),
}


def counted(what: Countable, arch: Architecture) -> int:
    """One count of an architecture by its name."""
    if not isinstance(arch, Architecture):
        raise SpecError(f"{what} can be limited in spaces of architectures only.")
    return _COUNTS[what](arch)


@node("limit")
class Limit(Constraint):
    """A count that must lie between ``low`` and ``high``, both allowed.

    ``decoder_params`` are the parameters of the layers, without embedding and head.
    """

    what: Countable
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low is None and self.high is None:
            raise SpecError(f"limit({self.what}) limits nothing; give it low, high or both.")

    def violation(self, member: Any) -> float:
        """How far off, as a share of the bound that is missed."""
        found = counted(self.what, member)
        if self.low is not None and found < self.low:
            return (self.low - found) / self.low
        if self.high is not None and found > self.high:
            return (found - self.high) / max(1.0, self.high)
        return 0.0

    def describe(self) -> str:
        words = self.what.replace("_", " ")
        if self.low is None:
            return f"{words} at most {_short(self.high)}"
        if self.high is None:
            return f"{words} at least {_short(self.low)}"
        return f"{words} from {_short(self.low)} to {_short(self.high)}"


@node("mixes_tokens")
class MixesTokens(Constraint):
    """Every stack has a layer that looks at other tokens; without one nothing can be learnt."""

    def violation(self, member: Any) -> float:
        mixing = (
            any(isinstance(layer, Attention | Convolution) for _, layer in stack.walk())
            for _, stack, _ in member.stacks()
        )
        return float(not all(mixing))

    def describe(self) -> str:
        return "some layer looks at other tokens"


def _short(number: float | None) -> str:
    assert number is not None
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.4g}{unit}"
    return f"{number:.4g}"
