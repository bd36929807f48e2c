"""Attention: projections to queries, keys and values, a mechanism between, a projection out."""

from typing import Literal

from formwright.arch.layer import Layer
from formwright.arch.mechanism import Mechanism, Softmax
from formwright.arch.node import NonNegative, Positive, node
from formwright.arch.position import Position, RelativeXL
from formwright.arch.site import Count, Load, Site, dense
from formwright.errors import ShapeError

QueryKeyKind = Literal["separate", "shared", "solo", "none"]


@node("attention")
class Attention(Layer):
    """Tokens look at each other, in several heads.

    ``query_key``: ``separate`` projections; ``shared``, queries are the keys (Reformer);
    ``solo``, queries are made from the keys by a square map (Primer); ``none``, no comparison
    at all, so that each token gets the mean of all values (Finding Fast Transformers).
    ``conv``: width of a causal depthwise convolution after each projection (Primer's MDHA).
    ``over``: the stream itself, or the encoder's output. ``out``: width of the result, that of
    the stream when not given. ``out_bias``: that of the output map, as ``bias`` when not given.
    ``head_norm``: queries and keys of each head pass an RMSNorm of this eps (Qwen3).
    """

    paper = "https://arxiv.org/abs/1706.03762"
    complexity = "that of its kind"

    heads: Positive
    kind: Mechanism = Softmax()
    kv_heads: Positive | None = None
    key: Positive | None = None
    value: Positive | None = None
    query_key: QueryKeyKind = "separate"
    conv: NonNegative = 0
    over: Literal["self", "source"] = "self"
    bias: bool = True
    project_out: bool = True
    out: Positive | None = None
    out_bias: bool | None = None
    head_norm: float | None = None

    @property
    def has_out_bias(self) -> bool:
        """Whether the output map adds a vector."""
        return self.bias if self.out_bias is None else self.out_bias

    @property
    def groups(self) -> int:
        """Heads of keys and values; several query heads may share one."""
        return self.kv_heads or self.heads

    def key_size(self, width: int) -> int:
        """Channels of one head's queries and keys."""
        return self.key or max(1, width // self.heads)

    def value_size(self, width: int) -> int:
        """Channels of one head's values."""
        return self.value or self.key_size(width)

    def mixed_width(self, width: int) -> int:
        """Channels of all heads' results together."""
        return self.heads * self.value_size(width)

    def out_width(self, site: Site) -> int:
        if self.heads % self.groups:
            raise ShapeError(
                f"{self.heads} query heads cannot share {self.groups} key-value heads evenly; "
                "kv_heads must divide heads."
            )
        if self.over == "source" and site.source is None:
            raise ShapeError("attention(over=source) needs an encoder; there is none here.")
        if self.query_key in ("shared", "solo") and (
            self.groups != self.heads or self.over == "source"
        ):
            raise ShapeError(
                f"attention(query_key={self.query_key}) makes queries from its own keys: "
                "it needs kv_heads equal to heads, over the stream itself."
            )
        if self.out is not None and not self.project_out:
            raise ShapeError(
                f"attention(out={self.out}, project_out=false) has no map to that width; "
                "leave out one of the two."
            )
        if self.head_norm is not None and self.query_key != "separate":
            raise ShapeError("attention(head_norm=...) needs query_key=separate.")
        self.kind.check(self, site)
        if site.position is not None and self.sees(site.position):
            site.position.check(self, site)
        return self.out or (site.width if self.project_out else self.mixed_width(site.width))

    def count(self, site: Site, load: Load) -> Count:
        width, mixed = site.width, self.mixed_width(site.width)
        total = Count(kept=load.tokens * width) + self._projections(site, load)
        total += self.kind.count(self, site, load)
        if site.position is not None and self.sees(site.position):
            total += site.position.per_attention(self, site, load)
        if self.project_out:
            total += dense(load.tokens, mixed, self.out or width, bias=self.has_out_bias)
        return total

    def _projections(self, site: Site, load: Load) -> Count:
        width = site.width
        into = site.source if self.over == "source" and site.source is not None else width
        rows = self._key_rows(site, load)
        queries = self.heads * self.key_size(width)
        keys = self.groups * self.key_size(width)
        values = self.groups * self.value_size(width)
        total = dense(rows, into, values, bias=self.bias) + _convolved(self.conv, values, rows)
        if self.query_key != "none":
            total += dense(rows, into, keys, bias=self.bias) + _convolved(self.conv, keys, rows)
        if self.query_key == "separate":
            total += dense(load.tokens, width, queries, bias=self.bias)
            total += _convolved(self.conv, queries, load.tokens)
        elif self.query_key == "solo":
            total += dense(load.tokens, queries, queries, bias=self.bias)
            total += Count(kept=load.tokens * queries)
        if self.head_norm is not None:
            made = load.tokens * queries + rows * keys
            ratios = load.tokens * self.heads + rows * self.groups  # one number per vector
            total += Count(params=2 * self.key_size(width), kept=made + ratios)
        return total

    def _key_rows(self, site: Site, load: Load) -> int:
        """How many vectors are projected to keys and values.

        Transformer-XL remembers the input of each layer and projects it anew; elsewhere keys
        and values themselves are remembered.
        """
        if self.over == "source":
            return load.batch * load.source
        position = site.position
        remembers_inputs = isinstance(position, RelativeXL) and self.sees(position)
        return load.batch * (load.length + (load.past if remembers_inputs else 0))

    def sees(self, position: Position) -> bool:
        """Whether positions act in this attention: on its own stream, if its kind lets them."""
        if self.over == "source" or self.query_key == "none":
            return False
        return self.kind.positions == "all" or (self.kind.positions == "turned" and position.turns)


def _convolved(kernel: int, channels: int, rows: int) -> Count:
    """A depthwise convolution after a projection; both its input and its result are kept."""
    if not kernel:
        return Count(kept=rows * channels)
    return Count(
        params=kernel * channels, flops=2 * kernel * rows * channels, kept=2 * rows * channels
    )
