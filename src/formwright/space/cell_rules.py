"""What the search of the Evolved Transformer asks of a model beside its size.

Paper: So et al. 2019, https://arxiv.org/abs/1901.11117. An unbroken residual path, a decoder that
attends to the encoder, and as many norms as the seed has.
"""

from typing import Any

from formwright.arch.graph.cell import Cell, attends_to_source, has_residual_path, simplest
from formwright.arch.node import NonNegative, node
from formwright.space.constraint import Constraint


@node("residual_path")
class ResidualPath(Constraint):
    """What enters a cell can leave it untouched, added to what the layers make."""

    def violation(self, member: Any) -> float:
        return float(sum(not has_residual_path(cell) for cell in _cells(member)))

    def describe(self) -> str:
        return "an unbroken residual path in every cell"


@node("reads_source")
class ReadsSource(Constraint):
    """The decoder attends to the encoder."""

    def violation(self, member: Any) -> float:
        if member.encoder is None:
            return 0.0
        cells = [layer for layer in member.layers.layers if isinstance(layer, Cell)]
        return float(not any(map(attends_to_source, cells)))

    def describe(self) -> str:
        return "a decoder that attends to the encoder"


@node("keeps_norms")
class KeepsNorms(Constraint):
    """So many branches of each cell are normalised, in the encoder and in the decoder."""

    reading: NonNegative = 2
    writing: NonNegative = 2

    def violation(self, member: Any) -> float:
        missing = 0
        for name, stack, _ in member.stacks():
            least = self.reading if name == "encoder" else self.writing
            cells = {layer for layer in stack.layers if isinstance(layer, Cell)}
            missing += sum(max(0, least - norms_of(cell)) for cell in cells)
        return float(missing)

    def describe(self) -> str:
        return "no fewer norms than the Transformer has"


def norms_of(cell: Cell) -> int:
    """Branches that read their state normalised."""
    blocks = simplest(cell).blocks
    return sum(branch.norm for block in blocks for branch in block.living())


def _cells(member: Any) -> set[Cell]:
    stacks = (stack for _, stack, _ in member.stacks())
    return {layer for stack in stacks for layer in stack.layers if isinstance(layer, Cell)}
