"""Operators cut into all their parts, as nodes and as modules with weights; parts add up."""

from formwright.arch.attention import Attention
from formwright.arch.components import attention_part, feedforward_part, shares
from formwright.arch.layer import FeedForward
from formwright.arch.site import Site
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.base import Builder
from formwright.ops.components import kept_attention, kept_feedforward
from formwright.ops.feedforward.feedforward import FeedForwardOp


def cut_feedforward(node: FeedForward, parts: int) -> tuple[FeedForward, ...]:
    """Feed-forwards of smaller inner width whose sum is ``node``."""
    sizes = shares(node.inner, parts, "inner channels")
    return tuple(
        feedforward_part(node, size, out_bias=number == 0) for number, size in enumerate(sizes)
    )


def cut_heads(node: Attention, width: int) -> tuple[Attention, ...]:
    """One attention per head, or per group of heads that share keys, whose sum is ``node``.

    Args:
        node: What to cut.
        width: Of the stream it stands in.
    """
    return tuple(
        attention_part(node, width, groups=1, out_bias=number == 0) for number in range(node.groups)
    )


def cut_query_key(node: Attention, width: int, parts: int) -> tuple[Attention, ...]:
    """Attentions that compare fewer channels: their scores, before the softmax, add up.

    Their results do not: a part is what is left when all other channels are dropped.
    """
    sizes = shares(node.key_size(width), parts, "query-key channels")
    return tuple(attention_part(node, width, key=size, out_bias=True) for size in sizes)


def cut_value(node: Attention, width: int, parts: int) -> tuple[Attention, ...]:
    """Attentions with the same weights over fewer value channels, whose sum is ``node``."""
    sizes = shares(node.value_size(width), parts, "value channels")
    return tuple(
        attention_part(node, width, value=size, out_bias=number == 0)
        for number, size in enumerate(sizes)
    )


def sliced_feedforward(
    whole: FeedForwardOp, node: FeedForward, site: Site, parts: int, builder: Builder | None = None
) -> list[FeedForwardOp]:
    """Feed-forwards over slices of the inner width; their sum is the whole."""
    builder = builder or Builder()
    return [
        kept_feedforward(whole, node, site, channels, builder, out_bias=not number)
        for number, channels in enumerate(_slices(node.inner, parts, "inner channels"))
    ]


def sliced_heads(
    whole: AttentionOp, site: Site, builder: Builder | None = None
) -> list[AttentionOp]:
    """One attention per head, or per group that shares keys; their sum is the whole."""
    builder = builder or Builder()
    return [
        kept_attention(whole, site, builder, groups=[group], out_bias=not group)
        for group in range(whole.node.groups)
    ]


def sliced_query_key(
    whole: AttentionOp, site: Site, parts: int, builder: Builder | None = None
) -> list[AttentionOp]:
    """Attentions over slices of the query-key channels; the sum of their scores is the whole's."""
    builder = builder or Builder()
    slices = _slices(whole.node.key_size(site.width), parts, "query-key channels")
    return [kept_attention(whole, site, builder, key=channels) for channels in slices]


def sliced_value(
    whole: AttentionOp, site: Site, parts: int, builder: Builder | None = None
) -> list[AttentionOp]:
    """Attentions over slices of the value channels; their sum is the whole."""
    builder = builder or Builder()
    slices = _slices(whole.node.value_size(site.width), parts, "value channels")
    return [
        kept_attention(whole, site, builder, value=channels, out_bias=not number)
        for number, channels in enumerate(slices)
    ]


def _slices(total: int, parts: int, what: str) -> list[range]:
    slices, begin = [], 0
    for size in shares(total, parts, what):
        slices.append(range(begin, begin + size))
        begin += size
    return slices
