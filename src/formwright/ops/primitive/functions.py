"""Primitives without weights, and what holds them together.

b batch, l lane (a branch of its own), n new token, t key (remembered or new), w channel, m map
rows (b, l, n, w); scores (b, l, m, n, t); a column (rows beside scores) (b, l, m, n, 1)
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from formwright.ops.attention.base import Sight
from formwright.ops.attention.softmax import visible
from formwright.ops.base import Context
from formwright.ops.position.base import distances

# --- of each number -------------------------------------------------------------------------


def abs_root(x: Tensor) -> Tensor:
    """The root of the absolute value."""
    return x.abs().sqrt()


def log_abs(x: Tensor) -> Tensor:
    """The logarithm of the absolute value."""
    return x.abs().log()


PLAIN: dict[str, Callable[..., Tensor]] = {
    "add": torch.add,
    "difference": torch.sub,
    "divide": torch.div,
    "multiply": torch.mul,
    "abs": torch.abs,
    "abs_root": abs_root,
    "square": torch.square,
    "exp": torch.exp,
    "log": log_abs,
    "recip": torch.reciprocal,
    "sign": torch.sign,
    "cos": torch.cos,
    "sin": torch.sin,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "max": torch.clamp_min,  # with a constant
    "min": torch.clamp_max,
    "c_mul": torch.mul,
    "relu": torch.relu,
}

# --- shapes ---------------------------------------------------------------------------------


def fit(x: Tensor, width: int) -> Tensor:
    """Rows of another width: one channel is repeated, others are cut off or filled up."""
    if x.shape[-1] == 1:
        return x.expand(*x.shape[:-1], width)
    return F.pad(x, (0, width - x.shape[-1]))  # a negative number cuts off


def turn(x: Tensor) -> Tensor:
    """Rows as a column: channel i goes to map i."""
    return x.transpose(2, 3).unsqueeze(-1)


def spread(x: Tensor, branches: int) -> Tensor:
    """Each lane once for each of its branches."""
    return x.repeat_interleave(branches, dim=1)


def join_rows(x: Tensor, branches: int) -> Tensor:
    """(b, l k, n, w) to (b, l, n, k w)."""
    return x.unflatten(1, (-1, branches)).transpose(2, 3).flatten(3)


def join_scores(x: Tensor, branches: int) -> Tensor:
    """(b, l k, m, n, t) to (b, l, k m, n, t)."""
    return x.unflatten(1, (-1, branches)).flatten(2, 3)


def repeat_rows(x: Tensor, branches: int) -> Tensor:
    """The channels again and again."""
    return x.repeat(1, 1, 1, branches)


def repeat_scores(x: Tensor, branches: int) -> Tensor:
    """The maps again and again."""
    return x.repeat(1, 1, branches, 1, 1)


# --- over channels, keys and tokens ---------------------------------------------------------


def visible_keys(x: Tensor, ctx: Context, causal: bool) -> Tensor | None:
    """Which keys each query may look at, (b or 1, 1, 1, n, t); None when it is all of them."""
    past, keys, batch, n = ctx.past, ctx.mask, x.shape[0], x.shape[1]
    reach, t = None, n
    if past is not None:
        keys, t = past.key_mask(ctx.mask, batch, n), n + past.remembered
        reach = past.limit if past.same_length else None
    sight = Sight(keys=keys, queries=ctx.mask, causal=causal, reach=reach)
    seen = visible(sight, n, t, x)
    if seen is None:
        if not causal or n == 1:
            return None
        seen = ctx.table(
            ("seen by a program", n, t), lambda: (distances(n, t, x.device) >= 0)[None, None]
        )
    return seen.unsqueeze(1)


def hide(scores: Tensor, seen: Tensor | None, fill: float) -> Tensor:
    """Scores with ``fill`` where a query may not look."""
    return scores if seen is None else scores.masked_fill(~seen, fill)


REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "reduce_mean": torch.mean,
    "reduce_sum": torch.sum,
    "reduce_min": torch.amin,
    "reduce_max": torch.amax,
    "reduce_prod": torch.prod,
}


def reduce_channels(rows: Tensor, word: str) -> Tensor:
    """Over the channels of each token: rows of one channel."""
    return REDUCTIONS[word](rows, dim=-1, keepdim=True)


def reduce_keys(scores: Tensor, word: str) -> Tensor:
    """Over the keys of each query, hidden ones filled already: rows, one channel per map."""
    return REDUCTIONS[word](scores, dim=-1).transpose(2, 3)


def mean_keys(scores: Tensor, seen: Tensor | None) -> Tensor:
    """The mean over visible keys; hidden ones are zero already."""
    if seen is None:
        return reduce_keys(scores, "reduce_mean")
    return (scores.sum(dim=-1) / seen.sum(dim=-1)).transpose(2, 3)


def cumulate(x: Tensor, ctx: Context, word: str, slot: int) -> Tensor:
    """Running totals over tokens; padding adds nothing."""
    neutral = 0.0 if word == "cum_sum" else 1.0
    if ctx.mask is not None:
        x = x.masked_fill(~ctx.mask[:, None, :, None], neutral)
    if word == "cum_prod":
        return x.cumprod(dim=-2)
    x = x.cumsum(dim=-2)
    return x if ctx.past is None else ctx.past.total(slot, x)


# --- matrix products ------------------------------------------------------------------------


def remembered(x: Tensor, ctx: Context, slot: int) -> Tensor:
    """Rows of earlier calls in front of new ones: what queries look at, (b, l, t, w)."""
    return x if ctx.past is None else ctx.past.extend(slot, x)[0]


def compare(queries: Tensor, keys: Tensor, maps: int) -> Tensor:
    """Rows with rows: one map of scores for each share of the channels."""
    return _shared_out(queries, maps) @ _shared_out(keys, maps).transpose(-1, -2)


def mix(scores: Tensor, rows: Tensor) -> Tensor:
    """Scores times rows: each map mixes its share of the channels."""
    mixed = scores @ _shared_out(rows, scores.shape[2])  # (b, l, m, n, e)
    return mixed.transpose(2, 3).flatten(3)


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """Scores times scores transposed: how much two queries look at the same."""
    return first @ second.transpose(-1, -2)


def _shared_out(rows: Tensor, maps: int) -> Tensor:
    """(b, l, n, m e) to (b, l, m, n, e)."""
    return rows.unflatten(-1, (maps, -1)).transpose(2, 3)


# --- patterns -------------------------------------------------------------------------------


def norm(x: Tensor, eps: float, scale: Tensor | None = None, shift: Tensor | None = None) -> Tensor:
    """The z-score over channels, with scale and shift where they belong to it."""
    weight = None if scale is None else scale.view(-1)
    bias = None if shift is None else shift.view(-1)
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def dense(x: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
    """A dense map with a bias, in one lane."""
    return F.linear(x, weight, shift.view(-1))


def softmax(scores: Tensor, seen: Tensor | None) -> Tensor:
    """Softmax over the keys that each query may see."""
    return hide(scores, seen, float("-inf")).softmax(dim=-1)


def plainly_causal(x: Tensor, ctx: Context, causal: bool) -> bool:
    """Whether a query sees exactly its own and earlier keys, which the kernel does by itself."""
    return causal and ctx.past is None and ctx.mask is None and x.shape[1] > 1


def attend(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None, plain: bool, maps: int, scale: float
) -> Tensor:
    """softmax(scale q k^T) v, each map with its share of the channels."""
    lanes = max(part.shape[1] for part in (q, k, v))
    q, k, v = (_laid_out(part, lanes, maps) for part in (q, k, v))
    mask = None if plain or seen is None else seen.squeeze(2)
    x = F.scaled_dot_product_attention(q, k, v, mask, is_causal=plain, scale=scale)
    x = x.unflatten(1, (lanes, maps)).transpose(2, 3)  # (b, l, n, m, e)
    return x.flatten(3) if maps > 1 else x.squeeze(3)


def _laid_out(rows: Tensor, lanes: int, maps: int) -> Tensor:
    """(b, l, n, m e) to (b, l m, n, e), channels together so that the fused kernel takes them."""
    if rows.shape[1] != lanes:
        rows = rows.expand(-1, lanes, -1, -1)
    rows = _shared_out(rows, maps).flatten(1, 2) if maps > 1 else rows
    return rows if rows.stride(-1) == 1 else rows.contiguous()
