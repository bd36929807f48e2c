"""Layers: what takes a stream of vectors and gives one back, and how layers are put together."""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

from formwright.arch.node import Node, Positive, node, recalled
from formwright.arch.site import Count, Load, Site, dense
from formwright.errors import ShapeError

ActivationKind = Literal[
    "relu", "gelu", "gelu_tanh", "silu", "squared_relu", "leaky_relu", "tanh", "sigmoid", "none"
]

JoinKind = Literal["sum", "mean", "concat", "multiply"]


class Layer(Node):
    """A node that maps a stream of some width to a stream of some width."""

    paper: ClassVar[str] = ""
    complexity: ClassVar[str] = "n"  # of time, in the length

    def out_width(self, site: Site) -> int:
        """Width of the result; raises ``ShapeError`` when the layer cannot stand here."""
        return site.width

    def count(self, site: Site, load: Load) -> Count:
        """Parameters, FLOPs and kept activations of this layer at this place."""
        raise NotImplementedError

    def keeps_input(self) -> bool:
        """Whether training keeps the input itself, so that side-by-side layers share it."""
        return True


@recalled
def _out_width(layer: Layer, site: Site) -> int:
    return layer.out_width(site)


@node("identity")
class Identity(Layer):
    """Passes its input on."""

    def count(self, site: Site, load: Load) -> Count:
        return Count()

    def keeps_input(self) -> bool:
        return False


@node("stack")
class Stack(Layer):
    """Layers one after the other."""

    layers: tuple[Layer, ...] = ()

    def placed(self, site: Site) -> Iterator[tuple[Layer, Site]]:
        """Each layer with the place it stands in."""
        return iter(self._laid(site)[0])

    def out_width(self, site: Site) -> int:
        return self._laid(site)[1]

    @recalled
    def _laid(self, site: Site) -> tuple[tuple[tuple[Layer, Site], ...], int]:
        """Each layer with its place, and the width at the end."""
        placed = []
        for index, layer in enumerate(self.layers):
            try:
                width = _out_width(layer, site)
            except ShapeError as error:
                raise ShapeError(f"layer {index + 1} of {len(self.layers)}: {error}") from None
            placed.append((layer, site))
            site = site.at(width)
        return tuple(placed), site.width

    def count(self, site: Site, load: Load) -> Count:
        return sum((layer.count(place, load) for layer, place in self.placed(site)), Count())

    def keeps_input(self) -> bool:
        moving = (layer for layer in self.layers if not isinstance(layer, Identity))
        return any(layer.keeps_input() for layer in moving)


class Norm(Layer):
    """A layer that brings every vector to a standard size."""


@node("layernorm")
class LayerNorm(Norm):
    """(x - mean) / deviation, scaled and shifted per channel.

    ``mean`` says how much of the mean is taken out: 1 is LayerNorm, 0 leaves it in, as Finding
    Fast Transformers found best; the deviation is taken around what was subtracted.
    """

    paper = "https://arxiv.org/abs/1607.06450"

    eps: float = 1e-5
    mean: float = 1.0
    bias: bool = True

    def count(self, site: Site, load: Load) -> Count:
        return Count(params=site.width * (1 + self.bias), kept=load.tokens * (site.width + 2))


@node("rmsnorm")
class RMSNorm(Norm):
    """x / root mean square, scaled per channel."""

    paper = "https://arxiv.org/abs/1910.07467"

    eps: float = 1e-6

    def count(self, site: Site, load: Load) -> Count:
        return Count(params=site.width, kept=load.tokens * (site.width + 1))


@node("primernorm")
class PrimerNorm(Norm):
    """Primer's own norm, (x - mean) / sqrt(mean(x (x - mean))): LayerNorm in other words."""

    paper = "https://arxiv.org/abs/2109.08668"

    eps: float = 1e-6

    def count(self, site: Site, load: Load) -> Count:
        return Count(params=2 * site.width, kept=load.tokens * (3 * site.width + 1))


@node("residual")
class Residual(Layer):
    """A branch around a layer.

    ``place`` of the norm: ``pre`` x + f(norm(x)); ``post`` norm(x + f(x)); ``after``
    x + norm(f(x)). With ``pad`` a narrower branch is filled up with zeros on the right.
    """

    paper = "https://arxiv.org/abs/1512.03385"

    inner: Layer
    place: Literal["pre", "post", "after"] = "pre"
    norm: Norm | None = LayerNorm()
    pad: bool = False

    def out_width(self, site: Site) -> int:
        width = self.inner.out_width(site)
        if width == site.width or (self.pad and width < site.width):
            return site.width
        raise ShapeError(
            f"a residual branch gives {width} channels beside a stream of {site.width}; "
            "end it with linear(" + str(site.width) + ") or, if it is narrower, set pad=true."
        )

    def count(self, site: Site, load: Load) -> Count:
        total = self.inner.count(site, load)
        if self.norm is not None:
            inside = site.at(self.inner.out_width(site)) if self.place == "after" else site
            total += self.norm.count(inside, load)
        return total

    def keeps_input(self) -> bool:
        return (self.norm is not None and self.place == "pre") or self.inner.keeps_input()


@node("parallel")
class Parallel(Layer):
    """Layers side by side on the same input, joined into one stream.

    With ``pad`` the narrower results are filled up on the right, with zeros before a sum or a
    mean and with ones before a product (the rules of the Evolved Transformer).
    """

    branches: tuple[Layer, ...]
    join: JoinKind = "sum"
    pad: bool = False

    def out_width(self, site: Site) -> int:
        if not self.branches:
            raise ShapeError("parallel([]) has no branch; give it at least one.")
        widths = [branch.out_width(site) for branch in self.branches]
        if self.join == "concat":
            return sum(widths)
        if len(set(widths)) > 1 and not self.pad:
            raise ShapeError(
                f"parallel branches of widths {widths} cannot be joined by {self.join}; "
                "make them equal, join by concat, or set pad=true."
            )
        return max(widths)

    def count(self, site: Site, load: Load) -> Count:
        total = sum((branch.count(site, load) for branch in self.branches), Count())
        sharing = sum(branch.keeps_input() for branch in self.branches)
        twice = max(0, sharing - 1) * load.tokens * site.width
        if self.join == "multiply":  # a product keeps what it multiplies
            twice -= load.tokens * sum(branch.out_width(site) for branch in self.branches)
        return replace(total, kept=total.kept - twice)

    def keeps_input(self) -> bool:
        return any(branch.keeps_input() for branch in self.branches)


@node("linear")
class Linear(Layer):
    """A dense map, the same for every token; between layers of different width it is the map."""

    out: Positive
    bias: bool = True

    def out_width(self, site: Site) -> int:
        return self.out

    def count(self, site: Site, load: Load) -> Count:
        kept = Count(kept=load.tokens * site.width)
        return kept + dense(load.tokens, site.width, self.out, bias=self.bias)


@node("activation")
class Activation(Layer):
    """A function of each number."""

    function: ActivationKind = "relu"

    def count(self, site: Site, load: Load) -> Count:
        return Count(kept=load.tokens * site.width * kept_by_activation(self.function))


@node("feedforward")
class FeedForward(Layer):
    """Two dense maps with an activation between; with ``gate`` a third one multiplies in.

    relu: Vaswani et al. 2017; gated: https://arxiv.org/abs/2002.05202; squared_relu: Primer,
    https://arxiv.org/abs/2109.08668. ``out_bias`` is that of the last map, as ``bias`` when not
    given: of parts that are added up (Finding Fast Transformers) only one may have it.
    """

    paper = "https://arxiv.org/abs/1706.03762"

    inner: Positive
    activation: ActivationKind = "gelu"
    gate: bool = False
    bias: bool = True
    out_bias: bool | None = None

    @property
    def has_out_bias(self) -> bool:
        """Whether the last map adds a vector."""
        return self.bias if self.out_bias is None else self.out_bias

    def count(self, site: Site, load: Load) -> Count:
        rows, width, inner = load.tokens, site.width, self.inner
        up = dense(rows, width, inner * (1 + self.gate), bias=self.bias)
        down = dense(rows, inner, width, bias=self.has_out_bias)
        kept = rows * inner * (kept_by_activation(self.activation) + 1)
        if self.gate:  # the product keeps both its factors
            kept += rows * inner * (1 + (self.activation != "none"))
        return up + down + Count(kept=rows * width + kept)


@node("glu")
class GLU(Layer):
    """Gated linear unit: one half of a dense map, times the sigmoid of the other half."""

    paper = "https://arxiv.org/abs/1612.08083"

    out: Positive | None = None
    bias: bool = True

    def out_width(self, site: Site) -> int:
        return self.out or site.width

    def count(self, site: Site, load: Load) -> Count:
        out = self.out_width(site)
        kept = Count(kept=load.tokens * (site.width + 2 * out))
        return kept + dense(load.tokens, site.width, 2 * out, bias=self.bias)


def kept_by_activation(function: ActivationKind) -> int:
    """Tensors, beside the result, that the gradient of an activation needs."""
    return 0 if function in ("relu", "tanh", "sigmoid", "none") else 1
