"""Softmax attention on torch's fused kernel. Paper: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762"""

import torch
import torch.nn.functional as F
from torch import Tensor

from formwright.arch.mechanism import Softmax
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.base import Context, operator
from formwright.ops.position.base import distances


@operator(Softmax)
class SoftmaxOp(MechanismOp):
    """softmax(q k / sqrt(d) + bias) v over what is visible."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        n, t = q.shape[-2], k.shape[-2]
        grouped = k.shape[1] != q.shape[1]
        mask = visible(sight, n, t, q)
        plain_causal = sight.causal and n == t and n > 1 and mask is None and sight.bias is None
        if mask is None and sight.causal and n > 1 and not plain_causal:
            mask = distances(n, t, q.device) >= 0
        if sight.bias is not None:
            mask = sight.bias if mask is None else sight.bias.masked_fill(~mask, float("-inf"))
        return F.scaled_dot_product_attention(
            q, k, v, mask, sight.dropout, is_causal=plain_causal, enable_gqa=grouped
        )


def visible(sight: Sight, n: int, t: int, like: Tensor) -> Tensor | None:
    """Which keys each query sees where padding or a limited reach decides, (b or 1, 1, n, t).

    Padded queries see what real ones would: their result is not used, but must be finite.
    """
    if sight.keys is None and sight.reach is None:
        return None
    mask = torch.ones(1, 1, n, t, dtype=torch.bool, device=like.device)
    if sight.causal:
        far = distances(n, t, like.device)
        mask = mask & (far >= 0)
        if sight.reach is not None:
            mask = mask & (far <= sight.reach)
    if sight.keys is not None:
        # who missed earlier pieces remembers fewer keys than the mask covers: the last ones
        seen = sight.keys[:, None, None, sight.keys.shape[1] - t :]
        if sight.queries is not None:
            seen = seen | ~sight.queries[:, None, :, None]
        mask = mask & seen
    return mask
