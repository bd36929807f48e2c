"""Linear attention: softmax(QK^T)V becomes phi(Q)(phi(K)^T V) with phi(x) = elu(x) + 1, O(length).

Paper: "Transformers are RNNs", Katharopoulos et al. 2020, https://arxiv.org/abs/2006.16236
Differs from the paper: the causal form works on chunks, not on a running sum per position. The
Long Range Arena code has no padding mask; ``mask=None`` gives that, a mask hides padded keys.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd import Function

from formwright.arch.mechanism import LinearTransformer
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels.shared import pad_positions
from formwright.ops.base import Context, operator

# b batch, h head, n position, d feature size per head, e value size per head
# g chunks of c positions

CAUSAL_CHUNK = 128
SLICED_LENGTH = 1024  # shorter inputs fit the cache as they are


def linear_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    eps: float = 1e-6,
) -> Float[Tensor, "b h n e"]:
    """out_i = phi(q_i) sum_j phi(k_j) v_j^T / (phi(q_i) . sum_j phi(k_j) + eps)."""
    return mapped_attention(q, k, v, elu_plus_one, mask=mask, causal=causal, eps=eps)


def elu_plus_one(x: Float[Tensor, "b h n d"]) -> Float[Tensor, "b h n d"]:
    """The paper's feature map; positive, so that the weights make an average."""
    if not (torch.is_grad_enabled() and x.requires_grad):
        return _EluPlusOne.forward(x)
    phi: Tensor = _EluPlusOne.apply(x)  # type: ignore[no-untyped-call]
    return phi


def mapped_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    phi: Callable[[Tensor], Tensor],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    eps: float = 0.0,
) -> Float[Tensor, "b h n e"]:
    """``feature_attention`` of phi(q) and phi(k), for a phi that treats each position alone."""
    learns = torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v))
    if causal or learns:
        return feature_attention(phi(q), phi(k), v, mask=mask, causal=causal, eps=eps)

    # Nothing is kept for backward: go through the positions in a few slices that fit the cache.
    slices = 4 if q.shape[2] >= SLICED_LENGTH else 1
    masks = [None] * slices if mask is None else mask.tensor_split(slices, dim=1)
    context, keys = torch.zeros_like(q[0, 0, 0, 0]), torch.zeros_like(q[0, 0, 0, 0])
    for k_slice, v_slice, real in zip(
        k.tensor_split(slices, dim=2), v.tensor_split(slices, dim=2), masks, strict=True
    ):
        features = phi(k_slice)
        if real is not None:
            features = features * real[:, None, :, None]
        context = context + features.mT @ v_slice  # (b, h, d, e)
        keys = keys + features.sum(2)  # (b, h, d)
    out = _joinable(q, v.shape[-1])
    for q_slice, target in zip(
        q.tensor_split(slices, dim=2), out.tensor_split(slices, dim=2), strict=True
    ):
        features = phi(q_slice)
        norm = torch.einsum("bhnd,bhd->bhn", features, keys).add_(eps).unsqueeze(-1)
        torch.div(features @ context, norm, out=target)
    return out


def feature_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    eps: float = 0.0,
) -> Float[Tensor, "b h n e"]:
    """Normalised attention with weights q_i . k_j, for features that are positive already."""
    if mask is not None:
        k = k * mask[:, None, :, None]
    if causal:
        return _causal(q, k, v, eps)
    out: Tensor = _FeatureAverage.apply(q, k, v, eps)[0]  # type: ignore[no-untyped-call]
    return out


# Both functions below are what autograd would derive, with fewer passes over memory: that, not
# arithmetic, is what linear attention spends its time on. Features are laid out as (b, h, n, d),
# where products are fastest, results as (b, n, h, d), so that joining the heads is free.


def _joinable(like: Tensor, size: int) -> Tensor:
    """An empty (b, h, n, size) whose heads can be joined without a copy."""
    batch, heads, n, _ = like.shape
    return like.new_empty(batch, n, heads, size).transpose(1, 2)


class _EluPlusOne(Function):
    """elu(x) + 1 = exp(min(x, 0)) + max(x, 0)."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        phi = x.new_empty(x.shape)
        slices = 4 if x.shape[2] > SLICED_LENGTH else 1
        for part, target in zip(
            x.tensor_split(slices, dim=2), phi.tensor_split(slices, dim=2), strict=True
        ):
            low = part.clamp(max=0)
            torch.sub(part, low, out=target).add_(low.exp_())
        return phi

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (phi,) = ctx.saved_tensors
        # The slope is 1 where phi > 1 and phi elsewhere.
        return torch.clamp(phi, max=1, out=_joinable(phi, phi.shape[-1])).mul_(grad)


class _FeatureAverage(Function):
    """q (k^T v) / (q . sum k + eps)."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, v: Tensor, eps: float) -> tuple[Tensor, ...]:
        context, keys = k.mT @ v, k.sum(2)  # (b, h, d, e), (b, h, d)
        norm = torch.einsum("bhnd,bhd->bhn", q, keys).add_(eps).unsqueeze(-1)
        out = torch.div(q @ context, norm, out=_joinable(q, v.shape[-1]))
        return out, context, keys, norm

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*inputs[:3], *output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, out, context, keys, norm = ctx.saved_tensors
        grad_norm = torch.linalg.vecdot(grad, out).neg_().unsqueeze(-1).div_(norm)
        grad = torch.div(grad, norm, out=grad.new_empty(grad.shape))
        grad_context = q.mT @ grad  # (b, h, d, e)
        grad_keys = torch.einsum("bhnd,bhn->bhd", q, grad_norm.squeeze(-1))
        grad_q = (grad @ context.mT).addcmul_(grad_norm, keys.unsqueeze(2))
        grad_k = (v @ grad_context.mT).add_(grad_keys.unsqueeze(2))
        return grad_q, grad_k, k @ grad_context, None


def _causal(q: Tensor, k: Tensor, v: Tensor, eps: float) -> Tensor:
    """Own chunk as a small triangular product, all earlier chunks through their summed state."""
    n = q.shape[2]
    chunk = min(CAUSAL_CHUNK, n)
    q, k, v = (pad_positions(x, 0, -n % chunk).unflatten(2, (-1, chunk)) for x in (q, k, v))

    weights = (q @ k.mT).tril()  # (b, h, g, c, c)
    context, total = k.mT @ v, k.sum(-2)  # (b, h, g, d, e), (b, h, g, d)
    # Exclusive sums: the state a chunk starts from holds the chunks before it, not itself.
    context, total = context.cumsum(2) - context, total.cumsum(2) - total

    out = weights @ v + q @ context
    norm = weights.sum(-1, keepdim=True) + q @ total.unsqueeze(-1) + eps
    return (out / norm).flatten(2, 3)[:, :, :n]


@operator(LinearTransformer)
class LinearTransformerOp(MechanismOp):
    """Features elu(x) + 1, sums swapped."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        return linear_attention(q, k, v, mask=self.real_keys(sight), causal=sight.causal)
