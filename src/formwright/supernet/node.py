"""The open places of a supernet as layers of the ordinary language.

They are made from a space and stand in no notation and no file: a space is what is written down.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from formwright.arch.connector import Connected
from formwright.arch.layer import JoinKind, Layer, LayerNorm, Norm, Stack
from formwright.arch.node import Node
from formwright.arch.site import Count, Load, Site
from formwright.errors import ShapeError


class Place(Node):
    """A node that is not known by name to notation and JSON."""

    NAME = "open place"

    def __post_init__(self) -> None:  # made by the translation only, from what was checked
        pass


@dataclass(frozen=True)
class Row(Stack):
    """Layers laid into the list around them: an option that holds several layers, or none."""

    NAME = "row"


class Options(Place, Layer):
    """Layers of which gates choose; all of them give a stream of one width."""

    name: str

    def held(self) -> tuple[Layer, ...]:
        """What may run here; an empty row where nothing may."""
        raise NotImplementedError

    def out_width(self, site: Site) -> int:
        widths = [option.out_width(site) for option in self.held()]
        if len(set(widths)) > 1:
            raise ShapeError(
                f"the options of {self.name!r} give streams of widths {widths}, which cannot be "
                "added up; make them equal (end the others with a linear map)."
            )
        return widths[0]

    def count(self, site: Site, load: Load) -> Count:
        return sum((option.count(site, load) for option in self.held()), Count())


@dataclass(frozen=True)
class Mixture(Options):
    """The sum of its options, each times its gate. Every option has weights of its own."""

    name: str
    options: tuple[Layer, ...]

    def held(self) -> tuple[Layer, ...]:
        return self.options


@dataclass(frozen=True)
class NormMixture(Mixture, Norm):
    """The same where a norm must stand."""


@dataclass(frozen=True)
class Presence(Options):
    """One of several layers that a list may hold: gate times layer, the rest passes by."""

    name: str
    index: int
    layer: Layer

    def held(self) -> tuple[Layer, ...]:
        return Row(), self.layer


@dataclass(frozen=True)
class Depth(Options):
    """Some of a row of units: a gate for each depth, of which ``kept`` says what units it has."""

    name: str
    kept: tuple[tuple[int, ...], ...]
    units: tuple[Layer, ...]

    def held(self) -> tuple[Layer, ...]:
        return Row(), *self.units


@dataclass(frozen=True)
class Term(Place):
    """A factor of a branch's gate: the sum of some gates of a decision."""

    name: str
    indices: tuple[int, ...]


@dataclass(frozen=True)
class Branch(Place):
    """A layer beside others; its gate is the product of the terms, 1 where there are none."""

    layer: Layer
    terms: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Gated(Place, Layer):
    """Layers side by side, each with a gate, joined by sum or by the mean over the gates."""

    branches: tuple[Branch, ...]
    join: JoinKind
    pad: bool

    def out_width(self, site: Site) -> int:
        widths = [branch.layer.out_width(site) for branch in self.branches]
        if len(set(widths)) > 1 and not self.pad:
            raise ShapeError(
                f"parallel branches of widths {widths} cannot be joined by {self.join}; "
                "make them equal or set pad=true."
            )
        return max(widths)

    def count(self, site: Site, load: Load) -> Count:
        return sum((branch.layer.count(site, load) for branch in self.branches), Count())

    def children(self) -> Iterator[tuple[str, Node]]:
        """The layers themselves, for whoever looks for attentions."""
        for index, branch in enumerate(self.branches):
            yield f"branches[{index}]", branch.layer


@dataclass(frozen=True)
class Template(Place):
    """A layer some of whose numbers are open; not to be walked into, as it has no sizes yet."""

    layer: Any

    def children(self) -> Iterator[tuple[str, Node]]:
        yield from ()


@dataclass(frozen=True)
class Elastic(Place, Layer):
    """One operator whose numbers are open: smaller ones are slices of the largest."""

    template: Template
    largest: Layer
    smallest: Layer
    names: tuple[str, ...]

    def out_width(self, site: Site) -> int:
        large, small = self.largest.out_width(site), self.smallest.out_width(site)
        if large != small:
            raise ShapeError(
                f"the decisions {', '.join(self.names)} change the width of the stream from "
                f"{small} to {large}; a supernet needs one width. Fix them, or follow the layer "
                "by a linear map inside each option of a one_of."
            )
        return large

    def count(self, site: Site, load: Load) -> Count:
        return self.largest.count(site, load)


@dataclass(frozen=True)
class ElasticNorm(Elastic, Norm):
    """The same where a norm must stand."""


@dataclass(frozen=True)
class OpenNorm(Place, Norm):
    """A LayerNorm that takes out as much of the mean as the gates of a decision say."""

    name: str
    norm: LayerNorm

    def count(self, site: Site, load: Load) -> Count:
        return self.norm.count(site, load)


@dataclass(frozen=True)
class OpenConnected(Place, Layer):
    """Connector units whose weights are open; ``names`` has an empty word for a fixed one."""

    fixed: Connected
    names: tuple[str, ...]

    def out_width(self, site: Site) -> int:
        return self.fixed.out_width(site)

    def count(self, site: Site, load: Load) -> Count:
        return self.fixed.count(site, load)
