"""Connector units: one number says whether a part joins the layer before it or begins a new one.

Paper: "Finding Fast Transformers: One-Shot Neural Architecture Search by Component Composition",
Tsai et al. 2020, https://arxiv.org/abs/2008.06808, section on connections and appendix C.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from formwright.arch.layer import Layer, Parallel, Residual, Stack
from formwright.arch.node import AtLeast, Open, node
from formwright.arch.site import Count, Load, Site
from formwright.errors import ShapeError


@node("connected")
class Connected(Layer):
    """Parts in a chain of connectors, each with a weight w between 0 and 1.

    A connector maps the pair (X, R) to (X + w (f(X) + R), (1 - w) (f(X) + R)). R begins at zero,
    and X + R is the result. w = 0 stays in the layer: the next part reads the same X, beside this
    one. w = 1 closes the layer: the next part reads the sum. Between the two it is some of both.
    X + R does not depend on the last weight.
    """

    paper = "https://arxiv.org/abs/2008.06808"
    complexity = "that of its layers"

    layers: tuple[Layer, ...]
    weights: tuple[Annotated[float, AtLeast(0)], ...]

    def out_width(self, site: Site) -> int:
        if not self.layers or len(self.layers) != len(self.weights):
            raise ShapeError(
                f"connected has {len(self.layers)} layers and {len(self.weights)} weights; "
                "give it at least one layer, and one weight for each."
            )
        for number, (layer, weight) in enumerate(zip(self.layers, self.weights, strict=True), 1):
            if not isinstance(weight, Open) and weight > 1:
                raise ShapeError(f"connector {number} has weight {weight:g}; use 0 to 1.")
            width = layer.out_width(site)
            if width != site.width:
                raise ShapeError(
                    f"part {number} of connected gives {width} channels beside a stream of "
                    f"{site.width}; end it with linear({site.width})."
                )
        return site.width

    def groups(self) -> Iterator[tuple[Layer, ...]]:
        """The parts that read the same X, in order."""
        group: list[Layer] = []
        for layer, weight in zip(self.layers, self.weights, strict=True):
            group.append(layer)
            if weight != 0:
                yield tuple(group)
                group = []
        if group:
            yield tuple(group)

    def count(self, site: Site, load: Load) -> Count:
        total = sum((layer.count(site, load) for layer in self.layers), Count())
        sharing = (sum(layer.keeps_input() for layer in group) for group in self.groups())
        twice = sum(max(0, number - 1) for number in sharing) * load.tokens * site.width
        return replace(total, kept=total.kept - twice)

    def keeps_input(self) -> bool:
        return any(layer.keeps_input() for layer in next(self.groups(), ()))


def unrolled(connected: Connected) -> Layer:
    """The same network as residual branches: parts of a layer side by side, layers stacked.

    Fractional weights have no such form; a chain with some stays as it is, but for its last
    weight, which says nothing and becomes 0.
    """
    is_open = any(isinstance(weight, Open) for weight in connected.weights)
    if is_open or not connected.layers or len(connected.layers) != len(connected.weights):
        return connected
    if any(weight not in (0, 1) for weight in connected.weights[:-1]):
        return connected.replace(weights=(*connected.weights[:-1], 0.0))
    branches = [
        Residual(group[0] if len(group) == 1 else Parallel(group), norm=None)
        for group in connected.groups()
    ]
    return branches[0] if len(branches) == 1 else Stack(tuple(branches))
