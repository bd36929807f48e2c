"""Where a layer stands, what passes through it, and what that costs: the words of counting.

A node can be checked and counted without being built: it needs to know its ``Site`` (what stands
around it, fixed with the architecture) and the ``Load`` (how many tokens come, known per call).
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from formwright.arch.position import Position


@dataclass(frozen=True, kw_only=True)
class Site:
    """What a layer may take for granted about the place it is built in."""

    width: int  # channels of what comes in
    causal: bool = False  # token t sees tokens up to t only
    position: "Position | None" = None  # how attention knows where tokens are
    source: int | None = None  # channels of the encoder's output, where there is one
    longest: int | None = None  # the longest input; None while no task is bound

    def __hash__(self) -> int:
        """Asked for by every layer of every candidate; places of one width are seldom many."""
        return self.width

    def at(self, width: int) -> Self:
        """The same place with another width."""
        return self if width == self.width else replace(self, width=width)


@dataclass(frozen=True, kw_only=True)
class Load:
    """How much passes through in one call."""

    batch: int = 1
    length: int = 1  # new tokens
    past: int = 0  # tokens remembered from earlier calls
    source: int = 0  # tokens of the encoder's output

    @property
    def tokens(self) -> int:
        """New tokens over the whole batch."""
        return self.batch * self.length


@dataclass(frozen=True)
class Count:
    """What a part holds and costs.

    FLOPs count two per multiply-add of matrix products and convolutions, as torch's own counter
    does; sums, norms and activations are left out. ``kept`` is what one training step holds for
    the backward pass, in numbers (not bytes), each tensor once, without parameters.
    """

    params: int = 0
    flops: int = 0
    kept: int = 0

    def __add__(self, other: "Count") -> "Count":
        return Count(self.params + other.params, self.flops + other.flops, self.kept + other.kept)


def dense(rows: int, inputs: int, outputs: int, *, bias: bool) -> Count:
    """A linear map applied to ``rows`` vectors. It keeps its input, which its caller counts."""
    return Count(params=inputs * outputs + bias * outputs, flops=2 * rows * inputs * outputs)
