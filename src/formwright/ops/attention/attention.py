"""Attention: projections to queries, keys and values, a mechanism between, a projection out.

b batch, n new token, t key (remembered or new), h head, g key-value head, d and e channels
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch import Attention, Site, Softmax
from formwright.errors import SpecError
from formwright.ops.attention.base import Sight
from formwright.ops.base import Builder, Context, Operator, operator, operator_class
from formwright.ops.conv.window import depthwise, neighbourhood
from formwright.ops.past import Past
from formwright.ops.position.base import PositionOp


@operator(Attention)
class AttentionOp(Operator):
    """Tokens look at each other, or at the encoder's output."""

    def __init__(self, node: Attention, site: Site, builder: Builder) -> None:
        super().__init__()
        self.node, self.causal = node, site.causal and node.over == "self"
        self.slot, width = builder.slot(), site.width
        self.dropout = builder.attention_dropout
        into = site.source if node.over == "source" and site.source is not None else width
        queries = node.heads * node.key_size(width)
        keys = node.groups * node.key_size(width)
        values = node.groups * node.value_size(width)
        compares = node.query_key != "none"
        self.query = nn.Linear(width, queries, node.bias) if node.query_key == "separate" else None
        self.solo = nn.Linear(queries, queries, node.bias) if node.query_key == "solo" else None
        self.key = nn.Linear(into, keys, node.bias) if compares else None
        self.value = nn.Linear(into, values, node.bias)
        normed = node.head_norm is not None
        self.query_norm = nn.RMSNorm(node.key_size(width), node.head_norm) if normed else None
        self.key_norm = nn.RMSNorm(node.key_size(width), node.head_norm) if normed else None
        self.query_conv = _Taps(queries, node, builder) if self.query and node.conv else None
        self.key_conv = _Taps(keys, node, builder) if compares and node.conv else None
        self.value_conv = _Taps(values, node, builder) if node.conv else None
        mixed = node.mixed_width(width)
        out = node.out or width
        self.out = nn.Linear(mixed, out, node.has_out_bias) if node.project_out else None
        self.position, self.remembers_inputs = None, False
        if site.position is not None and node.sees(site.position):
            position = operator_class(site.position)
            assert issubclass(position, PositionOp)
            self.position = position.part(site.position, node, site)
            self.remembers_inputs = position.remembers_inputs
        self.whole_text = not isinstance(node.kind, Softmax)
        self.mechanism: Any = operator_class(node.kind)(node.kind, node, site, builder)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        if self.key is None and isinstance(self.node.kind, Softmax):
            mixed = self._mean_of_values(x, ctx)
        elif self.whole_text:
            mixed = self._of_whole_text(x, ctx)
        else:
            q, k, v, bias = self._compared(x, ctx)
            mixed = self.mechanism(q, k, v, self._sight(x, bias, ctx), ctx)
        mixed = self.mechanism.joined(mixed, x.shape[1])  # (b, n, h e)
        return mixed if self.out is None else self.out(mixed)

    def _of_whole_text(self, x: Tensor, ctx: Context) -> Tensor:
        """Mechanisms whose blocks or sums begin with the text: they get all of it each time."""
        v = self._split(_convolved(self.value(x), self.value_conv, ctx), self.node.groups)
        q = k = None
        if self.key is not None:
            raw_keys = _convolved(self.key(x), self.key_conv, ctx)
            q, k = self._heads(self._queries(x, raw_keys, ctx), raw_keys)
            if self.position is not None:
                q, k, _ = self.position(q, k, ctx)
        if ctx.past is not None:
            v, q, k = self._with_earlier(v, q, k, ctx.past)
        repeats = self.node.heads // self.node.groups
        if repeats > 1:
            v = v.repeat_interleave(repeats, dim=1)
            k = k if k is None else k.repeat_interleave(repeats, dim=1)
        mixed = self.mechanism(q, k, v, self._sight(x, None, ctx), ctx)
        return mixed if ctx.past is None else mixed[:, :, mixed.shape[2] - x.shape[1] :]

    def _with_earlier(
        self, v: Tensor, q: Tensor | None, k: Tensor | None, past: Past
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Values, queries and keys of the whole text so far."""
        kind = self.node.kind
        if "pieces" in kind.breaks:
            raise SpecError(f"{kind.NAME} attention cannot read a text piece by piece.")
        if past.limit is not None:
            raise SpecError(f"{kind.NAME} attention cannot forget: give Past no limit.")
        if q is None or k is None:
            return past.extend(self.slot, v)[0], None, None
        v, q, k = past.extend(self.slot, v, q, k)
        return v, q, k

    def _compared(self, x: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Queries, keys, values (b, head, token, channel), and a bias for the scores."""
        assert self.key is not None
        past = ctx.past if self.node.over == "self" else None
        rows = self._key_input(x, ctx)
        around = self._around_keys(x, ctx)
        raw_keys = _convolved(self.key(rows), self.key_conv, around)
        v = self._split(_convolved(self.value(rows), self.value_conv, around), self.node.groups)
        q, k = self._heads(self._queries(x, raw_keys, ctx), raw_keys)
        bias, turns = None, self.position is not None and self.position.turns
        if self.position is not None and turns:  # new keys only: remembered ones are turned already
            q, k, _ = self.position(q, k, ctx)
        if past is not None and not self.remembers_inputs:
            k, v = past.extend(self.slot, k, v)
        if self.position is not None and not turns:
            q, k, bias = self.position(q, k, ctx)
        return q, k, v, bias

    def _key_input(self, x: Tensor, ctx: Context) -> Tensor:
        """What keys and values are made from."""
        if self.node.over == "source":
            assert ctx.source is not None, "attention over the source needs an encoder's output"
            return ctx.source
        if ctx.past is not None and self.remembers_inputs:
            return ctx.past.extend(self.slot, x)[0]
        return x

    def _queries(self, x: Tensor, raw_keys: Tensor, ctx: Context) -> Tensor:
        if self.query is not None:
            return _convolved(self.query(x), self.query_conv, ctx)
        own = raw_keys[:, raw_keys.shape[1] - x.shape[1] :]  # keys of the new tokens
        return own if self.solo is None else self.solo(own)

    def _around_keys(self, x: Tensor, ctx: Context) -> Context:
        """What a convolution over keys may look at: they may be other rows than the queries."""
        if self.node.over == "source":
            return Context(mask=ctx.source_mask)
        if ctx.past is not None and self.remembers_inputs:
            return Context(mask=ctx.past.key_mask(ctx.mask, x.shape[0], x.shape[1]))
        return ctx

    def _heads(self, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys head by head, (b, head, token, channel)."""
        q, k = self._split(queries, self.node.heads), self._split(keys, self.node.groups)
        if self.query_norm is not None and self.key_norm is not None:
            q, k = self.query_norm(q), self.key_norm(k)
        return q, k

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.unflatten(-1, (heads, -1)).transpose(1, 2)

    def _sight(self, x: Tensor, bias: Tensor | None, ctx: Context) -> Sight:
        dropout = self.dropout if self.training else 0.0
        if self.node.over == "source":
            return Sight(keys=ctx.source_mask, dropout=dropout, x=x)
        past, keys = ctx.past, ctx.mask
        if past is not None:
            keys = past.key_mask(ctx.mask, x.shape[0], x.shape[1])
        reach = past.limit if past is not None and past.same_length else None
        return Sight(bias, keys, ctx.mask, self.causal, reach, dropout, x)

    def _mean_of_values(self, x: Tensor, ctx: Context) -> Tensor:
        """No comparison: every query gets the mean of the values it may see, (b, h, n, e)."""
        rows = ctx.source if self.node.over == "source" else x
        assert rows is not None
        real = ctx.source_mask if self.node.over == "source" else ctx.mask
        v = _convolved(self.value(rows), self.value_conv, self._around_keys(x, ctx))
        ones = v.new_ones(v.shape[0], v.shape[1], 1)
        weight = ones if real is None else ones * real.unsqueeze(-1).to(v.dtype)
        sums = torch.cat((v * weight, weight), dim=-1)  # (b, t, g e + 1)
        if self.causal:
            sums = sums.cumsum(dim=1)
            if ctx.past is not None:
                sums = ctx.past.total(self.slot, sums)
        else:
            sums = sums.sum(dim=1, keepdim=True).expand(-1, x.shape[1], -1)
        mean = self._split(sums[..., :-1] / sums[..., -1:].clamp(min=1), self.node.groups)
        return mean.repeat_interleave(self.node.heads // self.node.groups, dim=1)


class _Taps(nn.Module):
    """A causal depthwise convolution over projected channels (Primer's multi-dconv-head)."""

    def __init__(self, channels: int, node: Attention, builder: Builder) -> None:
        super().__init__()
        self.kernel, self.slot = node.conv, builder.slot()
        self.weight = nn.Parameter(torch.full((channels, node.conv), 0.5 / node.conv))
        nn.init.constant_(self.weight[:, -1], 0.5)  # the token itself weighs most

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        x = depthwise(neighbourhood(x, self.kernel, True, self.slot, ctx), self.weight)
        return x.contiguous()  # channels last in memory, without which attention is not fused


def _convolved(x: Tensor, taps: _Taps | None, ctx: Context) -> Tensor:
    return x if taps is None else taps(x, ctx)
