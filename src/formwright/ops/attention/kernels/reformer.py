"""Reformer attention: tokens are sorted by a locality-sensitive hash and attend within chunks.

Paper: "Reformer", Kitaev et al. 2020, https://arxiv.org/abs/2001.04451
Differs from the paper: ``reformer_attention`` is the corrected form: shared queries and keys, keys
normalised, a token sees itself only when nothing else is visible, chunks of fixed length,
O(length). A key met in several hash rounds counts once per round (the paper divides by that count,
its public code does not); attending within the same bucket only is an option.
``reformer_lra_attention`` is the Long Range Arena code to the letter: a fixed *number* of chunks,
hence quadratic, scores *multiplied* by sqrt(d), keys as they are, no self, bucket, padding or
causal mask, and zero tokens at the end that stay visible. ``join_heads_untransposed`` is the
reshape by which that code mixes heads and positions.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd import Function

from formwright.arch import Attention, Reformer, Site
from formwright.ops.attention.base import MechanismOp, Sight, drawn
from formwright.ops.attention.kernels.shared import (
    bias_from,
    pad_mask,
    pad_positions,
    refuse_causal,
    require_positive,
    windows,
)
from formwright.ops.base import Builder, Context, operator

# b batch, h head, n position, d query/key size per head, e value size per head
# r hash rounds, p = b h r independently sorted sequences, g chunks of c tokens, m = 2 c keys

# Makes a token its own last resort: far below any score, far above MASKED.
SELF_BIAS = -1e5


def reformer_attention(
    qk: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    rotations: Sequence[Tensor],
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    chunk_length: int = 64,
    within_bucket: bool = False,
) -> Float[Tensor, "b h n e"]:
    """Attend to the own and the previous chunk of ``chunk_length`` tokens in hash order.

    ``rotations`` comes from ``lsh_rotations``; several hash rounds are merged by log-sum-exp.
    """
    require_positive(chunk_length=chunk_length)
    n = qk.shape[2]
    chunk = min(chunk_length, n)
    mask = pad_mask(mask, qk, 0, -n % chunk)
    qk, v = (pad_positions(x, 0, -n % chunk) for x in (qk, v))
    scale = 1 / math.sqrt(qk.shape[-1])
    rule = _Rule(chunk, scale, causal=causal, within_bucket=within_bucket, corrected=True)
    return _lsh_attention(qk, v, lsh_buckets(qk, rotations), mask, rule)[:, :, :n]


def reformer_lra_attention(
    qk: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    rotations: Sequence[Tensor],
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    chunks: int = 10,
    keep_padding: bool = False,
) -> Float[Tensor, "b h m e"]:
    """The Long Range Arena variant: ``chunks`` chunks, whatever the length.

    That code always appends between 1 and ``chunks`` zero tokens; ``keep_padding=True`` returns
    their rows too, which ``join_heads_untransposed`` needs. A mask hides padding, theirs included.
    """
    refuse_causal("Long Range Arena Reformer", causal)
    require_positive(chunks=chunks)
    n = qk.shape[2]
    fill = chunks - n % chunks
    mask = None if mask is None else F.pad(mask, (0, fill))
    qk, v = (pad_positions(x, 0, fill) for x in (qk, v))
    rule = _Rule((n + fill) // chunks, math.sqrt(qk.shape[-1]))
    out = _lsh_attention(qk, v, lsh_buckets(qk, rotations), mask, rule)
    return out if keep_padding else out[:, :, :n]


def join_heads_untransposed(
    out: Float[Tensor, "b h m e"], length: int
) -> Float[Tensor, "b n width"]:
    """The Long Range Arena reshape: row 0 becomes head 0 of the first tokens, one per head."""
    batch, heads, padded, e = out.shape
    return out.reshape(batch, padded, heads * e)[:, :length]


def lsh_rotations(
    d: int,
    buckets: int | Sequence[int],
    generator: torch.Generator,
    *,
    hashes: int = 1,
    dtype: torch.dtype = torch.float32,
) -> tuple[Tensor, ...]:
    """Draw gaussian rotations, one (hashes, d, buckets / 2) matrix per factor of the buckets.

    Many buckets are cheaper as a product: (16, 16) makes 256 with 16 columns instead of 128.
    """
    factors = (buckets,) if isinstance(buckets, int) else tuple(buckets)
    if any(factor < 2 or factor % 2 for factor in factors):
        raise ValueError(f"Every number of buckets must be even and at least 2, got {factors}.")
    return tuple(
        torch.randn(hashes, d, factor // 2, generator=generator).to(dtype) for factor in factors
    )


@torch.no_grad()
def lsh_buckets(x: Float[Tensor, "b h n d"], rotations: Sequence[Tensor]) -> Int[Tensor, "b h r n"]:
    """Bucket of each token in each round: argmax of [x R, -x R], combined over the factors."""
    bucket = torch.zeros((), dtype=torch.long, device=x.device)
    for rotation in rotations:
        turned = x.unsqueeze(2) @ rotation.to(x)  # (b, h, r, n, buckets / 2)
        side = torch.cat([turned, -turned], dim=-1).argmax(-1)
        bucket = bucket * (2 * rotation.shape[-1]) + side
    return bucket


class _Rule(NamedTuple):
    chunk: int
    scale: float
    causal: bool = False
    within_bucket: bool = False
    corrected: bool = False  # normalised keys and the self bias


class _Order(NamedTuple):
    """A sort by bucket and everything needed to go there and back by copying whole rows.

    Rows of an input are numbered as laid out in (b, n, h), sorted rows as in (p, n).
    """

    position: Tensor  # (p, n): original position of each sorted token
    bucket: Tensor  # (p, n): its bucket
    row: Tensor  # (p, n): its row in the input
    back: Tensor  # (r, b n h): sorted row of each input row in each round


def _sort_by_bucket(buckets: Tensor, mask: Tensor | None) -> _Order:
    batch, heads, rounds, n = buckets.shape
    device = buckets.device
    if mask is not None:  # padding goes last
        buckets = buckets.masked_fill(~mask[:, None, None], int(torch.iinfo(torch.int32).max))
    if torch.compiler.is_exporting():  # ONNX has no stable sort; with unique keys all are
        keys, _ = (buckets * n + torch.arange(n, device=device)).sort(dim=-1)
        bucket, position = keys // n, keys % n  # (b, h, r, n)
    else:
        bucket, position = buckets.sort(dim=-1, stable=True)

    example = torch.arange(batch, device=device).view(-1, 1, 1, 1)
    head = torch.arange(heads, device=device).view(-1, 1, 1)
    row = (example * n + position) * heads + head
    back = torch.empty(rounds, batch * n * heads, dtype=torch.long, device=device)
    sorted_row = torch.arange(row.numel(), device=device).view_as(row)
    back.scatter_(1, row.transpose(0, 2).flatten(1), sorted_row.transpose(0, 2).flatten(1))
    return _Order(position.view(-1, n), bucket.view(-1, n), row.view(-1, n), back)


class _TakeRows(Function):
    """Copy rows; backward copies them back, which is much faster than adding at indices.

    ``back`` holds where each row of x went, once per repetition. Rows of the result named in
    ``extra`` are further copies of the rows ``extra_of`` of x.
    """

    @staticmethod
    def forward(
        x: Tensor, take: Tensor, back: Tensor, extra: Tensor | None, extra_of: Tensor | None
    ) -> Tensor:
        return x.index_select(0, take)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[2:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None]:
        back, extra, extra_of = ctx.saved_tensors
        total = grad.index_select(0, back[0])
        for repetition in back[1:]:
            total = total + grad.index_select(0, repetition)
        if extra is not None:
            total = total.index_add(0, extra_of, grad.index_select(0, extra))
        return total, None, None, None, None


def _take_sorted(x: Tensor, order: _Order, chunk: int) -> Tensor:
    """Rows of (b, h, n, d) in hash order, led by a copy of the last chunk: (p, 1, n + c, d)."""
    rows = x.transpose(1, 2).reshape(-1, x.shape[-1])  # (b n h, d)
    count, n = order.row.shape
    lead = chunk if n > chunk else 0  # a single chunk has no other one before it
    take = torch.cat([order.row[:, n - lead :], order.row], dim=1)
    start = torch.arange(count, device=x.device)[:, None]
    back = order.back + (order.back // n + 1) * lead
    extra = extra_of = None
    if lead:
        extra = (start * (n + lead) + torch.arange(lead, device=x.device)).flatten()
        extra_of = take[:, :lead].flatten()
    out: Tensor = _TakeRows.apply(  # type: ignore[no-untyped-call]
        rows, take.flatten(), back, extra, extra_of
    )
    return out.view(count, 1, n + lead, -1)


def _lsh_attention(
    qk: Tensor, v: Tensor, buckets: Tensor, mask: Tensor | None, rule: _Rule
) -> Tensor:
    batch, heads, n, _ = qk.shape
    order = _sort_by_bucket(buckets, mask)
    chunk, blocks = rule.chunk, 1 if n == rule.chunk else 2
    tokens, values = (_take_sorted(x, order, chunk) for x in (qk, v))
    q = tokens[:, 0, (blocks - 1) * chunk :].unflatten(1, (-1, chunk))  # (p, g, c, d)
    # Length-normalised keys: x / rms(x); the missing 1 / sqrt(d) is in the scale.
    keys = F.rms_norm(tokens, tokens.shape[-1:], eps=1e-6) if rule.corrected else tokens
    k, v_windows = (
        windows(x, blocks=blocks, step=chunk)[:, 0] for x in (keys, values)
    )  # (p, g, m, d)
    bias = _chunk_bias(order, mask, rule, qk)

    if buckets.shape[2] == 1:
        out = F.scaled_dot_product_attention(q, k, v_windows, attn_mask=bias, scale=rule.scale)
        rows = _unsort(out, order)  # (1, b n h, e)
    else:
        scores = q @ k.mT * rule.scale
        scores = scores if bias is None else scores + bias
        total = scores.logsumexp(-1, keepdim=True)  # (p, g, c, 1)
        rounds = _unsort((scores - total).exp() @ v_windows, order)  # (r, b n h, e)
        rows = (_unsort(total, order).softmax(0) * rounds).sum(0)
    return rows.view(batch, n, heads, -1).transpose(1, 2)


def _unsort(x: Tensor, order: _Order) -> Tensor:
    """Rows of (p, g, c, e) back in input order, one set per round: (r, b n h, e)."""
    _, groups, chunk, e = x.shape
    n = groups * chunk
    # Fused attention returns (p, c, g, e) in memory; renumbering rows is cheaper than copying.
    rows = x.transpose(1, 2).reshape(-1, e)
    sequence, place = order.back // n, order.back % n
    take = sequence * n + place % chunk * groups + place // chunk
    back = torch.empty_like(take).view(1, -1)
    back.scatter_(1, take.view(1, -1), torch.arange(take.numel(), device=x.device)[None])
    out: Tensor = _TakeRows.apply(  # type: ignore[no-untyped-call]
        rows, take.flatten(), back, None, None
    )
    return out.view(*order.back.shape, e)


def _chunk_bias(order: _Order, mask: Tensor | None, rule: _Rule, qk: Tensor) -> Tensor | None:
    """What each chunk may not see, (p, g, c, m), or one shared tile when all chunks agree."""
    count, n = order.position.shape
    chunk, lead = rule.chunk, rule.chunk if n > rule.chunk else 0
    tile = None
    if rule.corrected:
        tile = torch.zeros(chunk, lead + chunk, dtype=qk.dtype, device=qk.device)
        tile.diagonal(lead).fill_(SELF_BIAS)
        tile = tile[None, None]
    if mask is None and not (rule.causal or rule.within_bucket):
        return tile

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        led = torch.cat([x[:, n - lead :], x], dim=1)
        rows, keys = x.view(count, -1, chunk), led.unfold(1, lead + chunk, chunk)
        return rows.unsqueeze(-1), keys.unsqueeze(-2)  # (p, g, c, 1), (p, g, 1, m)

    row, key = both(order.position)
    visible = key <= row if rule.causal else torch.ones_like(key, dtype=torch.bool)
    if rule.within_bucket:
        row_bucket, key_bucket = both(order.bucket)
        visible = visible & (row_bucket == key_bucket)
    if mask is not None:
        per_sequence = mask.repeat_interleave(count // mask.shape[0], dim=0)  # (p, n)
        visible = visible & both(per_sequence.gather(1, order.position))[1]
    bias = bias_from(visible, qk.dtype)
    return bias if tile is None else bias + tile


@operator(Reformer)
class ReformerOp(MechanismOp):
    """Chunks of tokens with like hashes.

    Differs from the paper: the hash is drawn once, when the layer is built, and saved with the
    weights; layers are not reversible.
    """

    rotations: Tensor

    def __init__(self, node: Reformer, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__(node, attention, site, builder)
        key, buckets = attention.key_size(site.width), node.bucket_count(site.longest)
        rotations = drawn(lambda g: lsh_rotations(key, buckets, g, hashes=node.hashes)[0])
        self.register_buffer("rotations", rotations)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        rotations = [self.rotations]
        if self.node.lra:
            return reformer_lra_attention(
                k, v, rotations=rotations, chunks=self.node.chunks, keep_padding=True
            )
        chunk = self.node.chunk
        return reformer_attention(k, v, rotations=rotations, chunk_length=chunk, **sight.told)

    def joined(self, mixed: Tensor, length: int) -> Tensor:
        if self.node.lra:
            return join_heads_untransposed(mixed, length)
        return super().joined(mixed, length)
