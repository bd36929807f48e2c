"""Modules cut into smaller ones, weights and all; together they compute what the whole does.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808. Keeping
only some parts is how a found architecture becomes a smaller, faster module.
Differs from the paper: it leaves open whether scores are re-scaled when query-key channels are
dropped; here they stay divided by the root of the whole's key size, which is folded into the
queries, because a smaller attention would divide by its own.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from formwright.arch import Attention, FeedForward, Site
from formwright.arch.components import attention_part, feedforward_part
from formwright.errors import ShapeError
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.base import Builder
from formwright.ops.feedforward.feedforward import FeedForwardOp

Channels = Sequence[int]


@torch.no_grad()
def kept_feedforward(
    whole: FeedForwardOp,
    node: FeedForward,
    site: Site,
    channels: Channels,
    builder: Builder | None = None,
    *,
    out_bias: bool = True,
) -> FeedForwardOp:
    """The feed-forward that is left when only these inner channels are kept."""
    part = feedforward_part(node, len(channels), out_bias=out_bias)
    built = FeedForwardOp(part, site, builder or Builder()).to(whole.up.weight)
    _copy_rows(whole.up, built.up, channels)
    if whole.gate is not None:
        _copy_rows(whole.gate, built.gate, channels)
    _copy_columns(whole.down, built.down, channels)
    return built


@torch.no_grad()
def kept_attention(
    whole: AttentionOp,
    site: Site,
    builder: Builder | None = None,
    *,
    groups: Channels | None = None,
    key: Channels | None = None,
    value: Channels | None = None,
    out_bias: bool = True,
) -> AttentionOp:
    """The attention that is left when only some heads and channels are kept.

    Args:
        whole: What to keep parts of; its weights are copied.
        site: The place it stands in.
        builder: Gives the new module its place in memory; one for all parts of a model.
        groups: Heads to keep, by number; of heads that share keys, the groups.
        key: Query-key channels to keep, the same in every head; none at all is allowed.
        value: Value channels to keep, the same in every head.
        out_bias: Whether to keep the bias of the output map.
    """
    node = whole.node
    if whole.position is not None:
        raise ShapeError("attention with positions inside it cannot be cut; use absolute ones.")
    part = attention_part(
        node,
        site.width,
        groups=None if groups is None else len(groups),
        key=None if key is None else len(key),
        value=None if value is None else len(value),
        out_bias=out_bias,
    )
    built = AttentionOp(part, site, builder or Builder()).to(whole.value.weight)
    cut = _Cut(node, site.width, groups, key, value)
    _copy_rows(whole.value, built.value, cut.value_rows)
    _copy_taps(whole.value_conv, built.value_conv, cut.value_rows)
    _copy_columns(whole.out, built.out, cut.out_columns)
    if built.key is not None:
        on_queries, on_keys = cut.scales()
        _copy_rows(whole.key, built.key, cut.key_rows, on_keys)
        _copy_taps(whole.key_conv, built.key_conv, cut.key_rows)
        if whole.query is not None:
            _copy_rows(whole.query, built.query, cut.query_rows, on_queries)
            _copy_taps(whole.query_conv, built.query_conv, cut.query_rows)
        if whole.solo is not None:  # only its values are cut
            _copy_rows(whole.solo, built.solo, range(whole.solo.out_features))
    return built


class _Cut:
    """Which rows of which matrices stay."""

    def __init__(
        self,
        node: Attention,
        width: int,
        groups: Channels | None,
        key: Channels | None,
        value: Channels | None,
    ) -> None:
        self.query_key = node.query_key
        key_size, value_size = node.key_size(width), node.value_size(width)
        groups = range(node.groups) if groups is None else groups
        each = node.heads // node.groups
        heads = [group * each + number for group in groups for number in range(each)]
        key = range(key_size) if key is None else key
        value = range(value_size) if value is None else value
        self.query_rows, self.key_rows = (_rows(of, key_size, key) for of in (heads, groups))
        self.out_columns, self.value_rows = (_rows(of, value_size, value) for of in (heads, groups))
        self.ratio = (len(key) / key_size) ** 0.5  # of the roots of the key sizes

    def scales(self) -> tuple[float, float]:
        """What queries and keys are multiplied by, to undo the smaller attention's own scale."""
        return (1.0, self.ratio**0.5) if self.query_key == "shared" else (self.ratio, 1.0)


def _rows(owners: Channels, size: int, channels: Channels) -> list[int]:
    return [owner * size + channel for owner in owners for channel in channels]


def _copy_rows(
    old: nn.Linear | None, new: nn.Linear | None, rows: Channels, scale: float = 1.0
) -> None:
    """The map to some of the outputs."""
    assert old is not None
    assert new is not None
    new.weight.copy_(_taken(old.weight, rows) * scale)
    if old.bias is not None:
        new.bias.copy_(_taken(old.bias, rows) * scale)


def _copy_columns(old: nn.Linear | None, new: nn.Linear | None, columns: Channels) -> None:
    """The map from some of the inputs."""
    assert old is not None
    assert new is not None
    new.weight.copy_(_taken(old.weight.T, columns).T)
    if new.bias is not None:
        new.bias.copy_(old.bias)


def _copy_taps(old: nn.Module | None, new: nn.Module | None, rows: Channels) -> None:
    """The kernels of some channels, where there are kernels."""
    if old is not None and new is not None:
        new.get_parameter("weight").copy_(_taken(old.get_parameter("weight"), rows))


def _taken(x: Tensor, rows: Channels) -> Tensor:
    return x[torch.as_tensor(list(rows), device=x.device)]
