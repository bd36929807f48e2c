"""Positions: how a model knows where in the text a token stands.

Some are added to the embedding once (sinusoid, learned), the others act inside every
self-attention. What all layers share is counted once, by ``shared``; what each attention owns
or computes for itself by ``per_attention``.
"""

from typing import TYPE_CHECKING, ClassVar

from formwright.arch.node import Node, Positive, node
from formwright.arch.site import Count, Load, Site, dense
from formwright.errors import ShapeError

if TYPE_CHECKING:
    from formwright.arch.attention import Attention


class Position(Node):
    """A way of telling positions."""

    paper: ClassVar[str] = ""
    turns: ClassVar[bool] = False  # queries and keys themselves change, whoever compares them

    def shared(self, size: int, longest: int | None, attention: "Attention | None") -> Count:
        """What stands once per model: ``size`` is the width where embeddings are added up."""
        return Count()

    def per_attention(self, attention: "Attention", site: Site, load: Load) -> Count:
        """What each self-attention adds."""
        return Count()

    def check(self, attention: "Attention", site: Site) -> None:
        """Raise ``ShapeError`` when the attention cannot use these positions."""

    @property
    def same_heads(self) -> bool:
        """Whether all self-attentions share tables per head and so need equal heads."""
        return False


@node("sinusoid")
class Sinusoid(Position):
    """Sines and cosines of many wave lengths, added to the embedding (Vaswani et al. 2017)."""

    paper = "https://arxiv.org/abs/1706.03762"


@node("learned")
class Learned(Position):
    """One learned vector per position, added to the embedding."""

    def shared(self, size: int, longest: int | None, attention: "Attention | None") -> Count:
        return Count(params=size * (longest or 0))


@node("xl")
class RelativeXL(Position):
    """Relative positions of Transformer-XL, https://arxiv.org/abs/1901.02860.

    Scores gain a term of the distance, through a projection owned by each attention; two bias
    vectors per head are shared by all layers or, with ``shared_bias=false``, owned by each.
    """

    paper = "https://arxiv.org/abs/1901.02860"

    shared_bias: bool = True

    @property
    def same_heads(self) -> bool:
        return self.shared_bias

    def shared(self, size: int, longest: int | None, attention: "Attention | None") -> Count:
        if not self.shared_bias:
            return Count()
        # the two vectors belong to the model and are there even when no layer uses them
        across = attention.heads * attention.key_size(size) if attention else size
        return Count(params=2 * across)

    def per_attention(self, attention: "Attention", site: Site, load: Load) -> Count:
        keys, key = load.length + load.past, attention.key_size(site.width)
        across = attention.heads * key
        # looking both ways there are as many distances again, less the one of a token to itself
        distances = keys if site.causal else keys + load.length - 1
        projection = dense(distances, site.width, across, bias=False)
        cells = load.batch * attention.heads * load.length
        # two queries (one per bias), the projected distances, and the weights themselves
        kept = 2 * load.tokens * across + distances * across + cells * keys
        own_bias = 0 if self.shared_bias else 2 * across
        return projection + Count(params=own_bias, flops=2 * cells * distances * key, kept=kept)


@node("t5")
class T5Buckets(Position):
    """A learned bias per head and distance, near ones exact, far ones in growing buckets.

    https://arxiv.org/abs/1910.10683. One table for all layers, or one each.
    """

    paper = "https://arxiv.org/abs/1910.10683"

    buckets: Positive = 32
    distance: Positive = 128
    share: bool = True

    @property
    def same_heads(self) -> bool:
        return self.share

    def shared(self, size: int, longest: int | None, attention: "Attention | None") -> Count:
        if attention is None or not self.share:
            return Count()
        return Count(params=self.buckets * attention.heads)

    def per_attention(self, attention: "Attention", site: Site, load: Load) -> Count:
        keys = load.length + load.past
        own = 0 if self.share else self.buckets * attention.heads
        cells = load.batch * attention.heads * load.length * keys
        return Count(params=own, kept=cells)  # a learned bias keeps the weights


@node("rotary")
class Rotary(Position):
    """Queries and keys are turned by an angle that grows with the position.

    https://arxiv.org/abs/2104.09864, halves rotated as in Llama. ``channels``: only the first ones
    of each head are turned, as in GPT-NeoX; all of them when not given.
    """

    paper = "https://arxiv.org/abs/2104.09864"

    base: float = 10000.0
    channels: Positive | None = None
    turns = True

    def check(self, attention: "Attention", site: Site) -> None:
        key = attention.key_size(site.width)
        turned = self.channels or key
        if turned % 2:
            raise ShapeError(f"rotary positions turn pairs; a key size of {turned} is odd.")
        if turned > key:
            raise ShapeError(f"rotary positions cannot turn {turned} channels of heads of {key}.")


@node("alibi")
class Alibi(Position):
    """Scores fall with the distance, at another slope in each head.

    https://arxiv.org/abs/2108.12409
    """

    paper = "https://arxiv.org/abs/2108.12409"
