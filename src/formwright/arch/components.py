"""Feed-forwards and attentions cut into smaller ones that add up to the whole.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808. The bias
of the last map stays with the first part: a copy in each would count it several times.

``ops.components`` does the same to weights.
"""

from formwright.arch.attention import Attention
from formwright.arch.layer import FeedForward
from formwright.arch.mechanism import Softmax
from formwright.errors import ShapeError


def feedforward_part(node: FeedForward, inner: int, *, out_bias: bool) -> FeedForward:
    """A part of a feed-forward with ``inner`` channels, with or without the last bias."""
    return node.replace(inner=inner, out_bias=node.out_bias if out_bias else _without(node))


def attention_part(
    node: Attention,
    width: int,
    *,
    groups: int | None = None,
    key: int | None = None,
    value: int | None = None,
    out_bias: bool,
) -> Attention:
    """A part of an attention: some heads, some query-key channels, some value channels.

    Without any query-key channel nothing is compared: each token gets the mean of the values.
    """
    check_can_be_cut(node, across=groups is not None or key is not None)
    groups = node.groups if groups is None else groups
    each = node.heads // node.groups
    nothing = key == 0
    return node.replace(
        heads=groups * each,
        kv_heads=None if node.groups == node.heads else groups,
        key=node.key_size(width) if key is None or nothing else key,
        value=node.value_size(width) if value is None else value,
        query_key="none" if nothing else node.query_key,
        out_bias=node.out_bias if out_bias else _without(node),
    )


def check_can_be_cut(node: Attention, *, across: bool) -> None:
    """Raise ``ShapeError`` unless parts of the attention add up to it."""
    if not isinstance(node.kind, Softmax):
        raise ShapeError(f"{node.kind.NAME} attention cannot be cut; only softmax attention can.")
    if not node.project_out:
        raise ShapeError("an attention without an output map is not a sum; set project_out=true.")
    if across and node.head_norm is not None:
        raise ShapeError("an attention that norms its queries and keys cannot be cut across them.")
    if across and node.query_key == "solo":
        raise ShapeError(
            "attention(query_key=solo) mixes the channels of all heads; only its values can be cut."
        )


def shares(total: int, parts: int, what: str) -> list[int]:
    """``total`` dealt out to ``parts``, as evenly as can be, the larger ones first."""
    if not 1 <= parts <= total:
        raise ShapeError(f"{total} {what} cannot be cut into {parts} parts; use 1 to {total}.")
    return [total // parts + (number < total % parts) for number in range(parts)]


def _without(node: FeedForward | Attention) -> bool | None:
    """How a part says that it has no last bias."""
    return False if node.has_out_bias else node.out_bias
