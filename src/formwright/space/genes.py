"""Spaces whose members differ in a gene: a layer that is drawn and changed as a whole graph."""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeVar

from formwright.arch.architecture import Architecture, Seq2Seq
from formwright.arch.codec import from_data, to_data
from formwright.arch.frame import Frame
from formwright.arch.layer import Layer
from formwright.errors import FormatError, SpecError
from formwright.space.constraint import Constraint
from formwright.space.part import Decisions
from formwright.space.space import Space

Gene = TypeVar("Gene", bound=Layer)


class GeneSpace(Space):
    """Models of one stack whose layers are genes. A decision is a gene as the data of its node.

    Args:
        base: The model that a search begins with. All members share its backbone and frame.
        constraints: What members must satisfy as well.
        name: What to call it in messages and reports.
    """

    def __init__(
        self, base: Architecture, constraints: Sequence[Constraint] = (), name: str = "genes"
    ) -> None:
        super().__init__(constraints)
        if isinstance(base.backbone, Seq2Seq):
            raise SpecError(
                f"The space {name!r} has one stack of layers, so it cannot translate; use 'evolved'"
                " or 'open' where an encoder and a decoder are needed."
            )
        self.base, self.name = base.check(), name

    def for_frame(self, frame: Frame) -> Self:
        return type(self)(self.base.bind(frame), self.constraints, self.name)

    def to_data(self) -> dict[str, Any]:
        return {"name": self.name, "base": to_data(self.base)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        base = from_data(data.get("base"), "base")
        if not isinstance(base, Architecture):
            raise FormatError('"base" must hold the architecture that the space is made around.')
        return cls(base, name=str(data.get("name")))


def frozen(data: Any) -> Any:
    """JSON with tuples for lists, at any depth, as the record of a study gives it back."""
    if isinstance(data, dict):
        return {key: frozen(value) for key, value in data.items()}
    return tuple(map(frozen, data)) if isinstance(data, list) else data


def taken(decisions: Decisions, name: str) -> Any:
    """What was decided under a name."""
    if name not in decisions:
        raise SpecError(f"The decision {name!r} is missing; it must be taken.")
    return decisions[name]


def gene_data(gene: Layer) -> Any:
    """A layer as a decision: plain data, with tuples for lists as in all decisions."""
    return frozen(to_data(gene))


def gene_of(data: Any, name: str, kind: type[Gene]) -> Gene:
    """The layer that a decision stands for."""
    gene = from_data(data, name)
    if not isinstance(gene, kind):
        raise SpecError(f"The decision {name!r} must be the data of a {kind.NAME}, not {data!r}.")
    return gene
