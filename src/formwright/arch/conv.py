"""Convolutions over the sequence. In a causal stack they look left only, elsewhere both ways.

Kernels are odd where they are centred, so that a token stands in the middle of what it sees.
"""

from formwright.arch.layer import Layer
from formwright.arch.node import Positive, node
from formwright.arch.site import Count, Load, Site, dense
from formwright.errors import ShapeError


class Convolution(Layer):
    """A layer that mixes each token with its neighbours, ``kernel`` of them in all."""

    kernel: int
    out: int | None = None  # the width of the stream where it is not given

    def out_width(self, site: Site) -> int:
        if not site.causal and self.kernel % 2 == 0:
            raise ShapeError(
                f"{self.NAME}({self.kernel}) cannot be centred on a token; "
                "outside a decoder a kernel must be odd."
            )
        return self.out or site.width


class SharedConvolution(Convolution):
    """A convolution whose kernels are shared: the channels are dealt out evenly to ``heads``."""

    heads: int

    def out_width(self, site: Site) -> int:
        if site.width % self.heads:
            raise ShapeError(
                f"{self.NAME}(heads={self.heads}) cannot share {site.width} channels evenly; "
                "choose a number of heads that divides the width."
            )
        return super().out_width(site)


@node("conv")
class Conv(Convolution):
    """A full convolution: every output channel sees every input channel of every neighbour."""

    kernel: Positive
    out: Positive | None = None
    bias: bool = True

    def count(self, site: Site, load: Load) -> Count:
        inputs, out = self.kernel * site.width, self.out_width(site)
        kept = Count(kept=padded_tokens(self.kernel, load) * site.width)
        return kept + dense(load.tokens, inputs, out, bias=self.bias)


@node("depthwise")
class DepthwiseConv(Convolution):
    """One kernel per channel."""

    paper = "https://arxiv.org/abs/1706.03059"

    kernel: Positive
    bias: bool = False

    def count(self, site: Site, load: Load) -> Count:
        return per_channel(self.kernel, site.width, load) + Count(
            params=site.width * (self.kernel + self.bias)
        )


@node("separable")
class SeparableConv(Convolution):
    """A depthwise convolution, then a dense map over channels.

    ``units`` of them are stacked, ReLU between; NAS-BERT's SepConv has two.
    """

    paper = "https://arxiv.org/abs/1706.03059"

    kernel: Positive
    out: Positive | None = None
    units: Positive = 1

    def count(self, site: Site, load: Load) -> Count:
        out = self.out_width(site)
        first, other = (self._unit(width, out, load) for width in (site.width, out))
        more = self.units - 1
        return first + Count(more * other.params, more * other.flops, more * other.kept)

    def _unit(self, width: int, out: int, load: Load) -> Count:
        total = per_channel(self.kernel, width, load) + Count(params=self.kernel * width)
        total += dense(load.tokens, width, out, bias=True)
        return total + Count(kept=load.tokens * width)


@node("lightconv")
class LightConv(SharedConvolution):
    """Lightweight convolution: ``heads`` kernels, softmax over the taps, shared by channels.

    https://arxiv.org/abs/1901.10430. The channels are dealt out evenly to the heads.
    """

    paper = "https://arxiv.org/abs/1901.10430"

    kernel: Positive
    heads: Positive = 1
    softmax: bool = True

    def count(self, site: Site, load: Load) -> Count:
        weights = Count(params=self.heads * self.kernel)
        return weights + per_channel(self.kernel, site.width, load)


@node("reducedconv")
class ReducedConv(Convolution):
    """A lightweight convolution as the Evolved Transformer has it: sharing by ``reduction``.

    Every ``reduction`` channels share a kernel, softmax over the taps; the channels left over
    have one each. ``out`` is a multiple of the width: then each channel gives several.
    https://arxiv.org/abs/1901.11117
    """

    kernel: Positive
    reduction: Positive = 1
    out: Positive | None = None

    def kernels(self, width: int) -> int:
        """Kernels for one result per channel."""
        return width // self.reduction + width % self.reduction

    def out_width(self, site: Site) -> int:
        out = super().out_width(site)
        if out % site.width:
            raise ShapeError(
                f"{self.NAME}({self.kernel}) cannot make {out} channels out of {site.width}; "
                "the result must be a multiple of the width."
            )
        return out

    def count(self, site: Site, load: Load) -> Count:
        out = self.out_width(site)
        weights = self.kernel * self.kernels(site.width) * (out // site.width)
        spelled_out = weights + self.kernel * out  # after the softmax, and for every channel
        return Count(
            params=weights,
            flops=2 * load.tokens * out * self.kernel,
            kept=padded_tokens(self.kernel, load) * site.width + spelled_out,
        )


@node("dynamicconv")
class DynamicConv(SharedConvolution):
    """A lightweight convolution whose kernels are made from the token itself.

    https://arxiv.org/abs/1901.10430
    """

    paper = "https://arxiv.org/abs/1901.10430"

    kernel: Positive
    heads: Positive = 1

    def count(self, site: Site, load: Load) -> Count:
        taps = self.heads * self.kernel
        kernels = dense(load.tokens, site.width, taps, bias=False)
        mixing = Count(
            flops=2 * load.tokens * site.width * self.kernel,
            # the input, the kernels after their softmax, and every token's neighbourhood
            kept=load.tokens * (site.width + taps + site.width * self.kernel),
        )
        return kernels + mixing


def padded_tokens(kernel: int, load: Load) -> int:
    """Tokens after the zeros that let the first (and last) tokens have neighbours."""
    return load.batch * (load.length + kernel - 1)


def per_channel(kernel: int, width: int, load: Load) -> Count:
    """Work of one kernel per channel, without its weights."""
    return Count(flops=2 * load.tokens * width * kernel, kept=padded_tokens(kernel, load) * width)
