"""What the attention kernels share: one contract, sliding windows, softmax over keys in parts.

Every softmax kernel boils down to torch's fused attention on small dense pieces. A row whose keys
sit in several pieces (own block, global block, random blocks) is computed piece by piece and
merged by its log-sum-exp, so no piece is ever copied next to another and no mask is n x n.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import Function

# b batch, h head, n position, d query/key size per head, e value size per head
# g groups of consecutive rows, c rows per group (n = g c), m keys that one group sees

# Large enough to vanish after softmax in every dtype, finite so that a row without any visible
# key (a padded query) becomes a plain average instead of NaN.
MASKED = -1e10

# Torch's fused CPU attention, forward and backward. Called directly because only this pair
# exposes the log-sum-exp that merging needs; `attend_parts` has a portable path beside it.
_FUSED = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FUSED_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


def refuse_causal(mechanism: str, causal: bool) -> None:
    """Raise for mechanisms in which a position cannot be kept from seeing the future."""
    if causal:
        raise ValueError(
            f"{mechanism} attention has no causal form, got causal=True. Causal forms exist for "
            "local, longformer, sparse, linear, performer, reformer and synthesizer."
        )


def require_positive(**sizes: int) -> None:
    """Raise when a size is below one, naming it."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}.")


def require_length(table: str, rows: int, length: int) -> None:
    """Raise when a table learned per position has fewer rows than the input has tokens."""
    if length > rows:
        raise ValueError(
            f"The input has {length} tokens but {table} was built for at most {rows}. "
            f"Build it with {length} rows or shorten the input."
        )


def bias_from(visible: Bool[Tensor, "..."], dtype: torch.dtype) -> Float[Tensor, "..."]:
    """Turn visibility into what is added to the scores: 0 where visible, MASKED elsewhere."""
    bias = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return bias.masked_fill_(~visible, MASKED)


def key_bias(
    mask: Bool[Tensor, "b n"] | None, dtype: torch.dtype
) -> Float[Tensor, "b 1 1 n"] | None:
    """The bias that hides padded keys from every head and row; None hides nothing."""
    return None if mask is None else bias_from(mask, dtype)[:, None, None]


def pad_positions(x: Float[Tensor, "b h n d"], left: int, right: int) -> Float[Tensor, "b h m d"]:
    """Put zero rows before and after, or return ``x`` itself when there is nothing to add."""
    return x if left == right == 0 else F.pad(x, (0, 0, left, right))


def pad_mask(
    mask: Bool[Tensor, "b n"] | None, like: Float[Tensor, "b h n d"], left: int, right: int
) -> Bool[Tensor, "b m"] | None:
    """Real tokens after padding by ``left`` and ``right``; None when every token is real."""
    if mask is None:
        if left == right == 0:
            return None
        mask = torch.ones(like.shape[0], like.shape[2], dtype=torch.bool, device=like.device)
    return F.pad(mask, (left, right))


def group_rows(x: Float[Tensor, "b h n d"], groups: int) -> Float[Tensor, "bg h c d"]:
    """Fold consecutive rows into the batch; free for tensors laid out as (b, n, h, d)."""
    return x.unflatten(2, (groups, -1)).transpose(1, 2).flatten(0, 1)


def ungroup_rows(x: Float[Tensor, "bg h c d"], batch: int) -> Float[Tensor, "b h n d"]:
    """Undo ``group_rows``; free for the layout that fused attention returns."""
    return x.unflatten(0, (batch, -1)).transpose(1, 2).flatten(2, 3)


def attend(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h m d"],
    v: Float[Tensor, "b h m e"],
    *,
    mask: Bool[Tensor, "b m"] | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Float[Tensor, "b h n e"]:
    """Dense softmax attention over the real keys; rows and keys start at the same position."""
    bias = key_bias(mask, q.dtype)
    if bias is not None and causal:
        past = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
        bias = bias + bias_from(past, q.dtype)  # (b, 1, n, m)
        causal = False
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=causal, scale=scale)


class _Windows(Function):
    """Overlapping windows as a view, with a backward that adds a few shifted slices.

    ``Tensor.unfold`` has the same forward, but its backward walks single elements and took six
    times as long.
    """

    @staticmethod
    def forward(x: Tensor, blocks: int, step: int) -> Tensor:
        return x.unfold(2, blocks * step, step).movedim(-1, -2)  # (b, h, g, blocks * step, d)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int], output: Tensor) -> None:
        _, ctx.blocks, ctx.step = inputs

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        b, h, g, _, d = grad.shape
        pieces = grad.unflatten(3, (ctx.blocks, ctx.step))  # (b, h, g, blocks, step, d)
        pieces = pieces.permute(3, 0, 2, 4, 1, 5)  # (blocks, b, g, step, h, d)
        total = grad.new_zeros(b, g + ctx.blocks - 1, ctx.step, h, d)
        for offset, piece in enumerate(pieces):
            total[:, offset : offset + g] += piece
        return total.flatten(1, 2).transpose(1, 2), None, None  # (b, h, n, d)


def windows(x: Tensor, *, blocks: int, step: int) -> Tensor:
    """Windows of ``blocks * step`` rows of (b, h, n, d), one every ``step`` rows, as a view.

    The result is (b, h, g, blocks * step, d); n must be a multiple of ``step``.
    """
    view: Tensor = _Windows.apply(x, blocks, step)  # type: ignore[no-untyped-call]
    return view


def sliding_windows(
    x: Float[Tensor, "b h n d"], *, blocks: int, step: int
) -> Float[Tensor, "bg h m d"]:
    """The same with the windows folded into the batch; copies only if the batch has several."""
    return windows(x, blocks=blocks, step=step).transpose(1, 2).flatten(0, 1)


class Part(NamedTuple):
    """Some of the keys that each group of rows sees."""

    key: Tensor  # (b g, h, m, d): g may differ from part to part, g = 1 serves all rows
    value: Tensor  # (b g, h, m, e)
    bias: Tensor | None  # broadcasts to (b g, h, c, m); constant, gets no gradient


class _FusedParts(Function):
    """Softmax attention over all parts at once, one fused call per part.

    Backward needs no merging formula of its own: fused backward recomputes the weights as
    exp(score - logsumexp), so with the log-sum-exp and the output of *all* parts it returns
    the exact gradient of each part.
    """

    @staticmethod
    def forward(q: Tensor, scale: float, *flat: Tensor | None) -> tuple[Tensor, Tensor]:
        outs, sums = [], []
        for key, value, bias in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            assert key is not None
            assert value is not None
            rows = group_rows(q, key.shape[0] // q.shape[0])
            out, logsumexp = _FUSED(rows, key, value, attn_mask=bias, scale=scale)
            outs.append(ungroup_rows(out, q.shape[0]))
            sums.append(ungroup_rows(logsumexp[..., None], q.shape[0]))  # (b, h, n, 1)
        total = torch.stack(sums).logsumexp(0)
        weights = [(part - total).exp_().to(q.dtype) for part in sums]
        merged = outs[0].mul_(weights[0])
        for out, weight in zip(outs[1:], weights[1:], strict=True):
            merged.addcmul_(out, weight)
        return merged, total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        q, ctx.scale, *flat = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(q, *output, *flat)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        q, merged, total, *flat = ctx.saved_tensors
        grad_q: Tensor | None = None
        grads: list[Tensor | None] = []
        for key, value, bias in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            groups = key.shape[0] // q.shape[0]
            rows, out, grad_out = (group_rows(x, groups) for x in (q, merged, grad))
            logsumexp = group_rows(total, groups).squeeze(-1)
            grad_rows, grad_key, grad_value = _FUSED_BACKWARD(
                grad_out, rows, key, value, out, logsumexp, 0.0, False,
                attn_mask=bias, scale=ctx.scale,
            )  # fmt: skip
            grads += [grad_key, grad_value, None]
            grad_rows = ungroup_rows(grad_rows, q.shape[0])
            grad_q = grad_rows if grad_q is None else grad_q.add_(grad_rows)
        return grad_q, None, *grads


def _portable_parts(q: Tensor, parts: Sequence[Part], scale: float) -> Tensor:
    """The same as the fused path in plain torch, for other devices, for export and for e != d."""
    scores, sizes = [], [part.key.shape[2] for part in parts]
    for key, _, bias in parts:
        rows = group_rows(q, key.shape[0] // q.shape[0])
        score = rows @ key.mT * scale  # (b g, h, c, m)
        scores.append(ungroup_rows(score if bias is None else score + bias, q.shape[0]))
    weights = torch.cat(scores, -1).softmax(-1).split(sizes, -1)  # each (b, h, n, m)
    outs = [
        ungroup_rows(group_rows(weight, value.shape[0] // q.shape[0]) @ value, q.shape[0])
        for weight, (_, value, _) in zip(weights, parts, strict=True)
    ]
    return torch.stack(outs).sum(0)


def attend_parts(
    q: Float[Tensor, "b h n d"], parts: Sequence[Part], scale: float | None = None
) -> Float[Tensor, "b h n e"]:
    """Softmax attention of every row over the keys of all parts together."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    fused = q.device.type == "cpu" and all(p.value.shape[-1] == q.shape[-1] for p in parts)
    if not fused or torch.compiler.is_exporting():
        return _portable_parts(q, parts, scale)
    flat = [tensor for part in parts for tensor in part]
    out: Tensor = _FusedParts.apply(q, scale, *flat)[0]  # type: ignore[no-untyped-call]
    return out
