"""Linformer attention: keys and values are projected along the length to a few slots, O(length).

Paper: "Linformer", Wang et al. 2020, https://arxiv.org/abs/2006.04768
Differs from the paper: nothing; sharing one matrix between keys, values, heads and layers (as the
Long Range Arena code does, with 16 slots) is the caller's choice. That code has no padding mask;
``mask=None`` gives that, a mask takes padded tokens out of the projection.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from formwright.arch import Attention, Linformer, Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels.shared import refuse_causal, require_length
from formwright.ops.base import Builder, Context, operator

# b batch, h head, n position, d query/key size per head, e value size per head, r slots

# With fewer slots than this, plain products beat torch's fused attention, most of all backward.
FEW_SLOTS = 32


def linformer_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    key_projection: Float[Tensor, "longest r"],
    value_projection: Float[Tensor, "longest r"],
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
) -> Float[Tensor, "b h n e"]:
    """softmax(q (P_k^T k)^T / sqrt(d)) P_v^T v with the first n rows of both projections.

    A layer does better with its two halves: P^T (x W) = (P^T x) W, so applying ``project_length``
    to x itself leaves only the slots to be multiplied by the key and value weights.
    """
    refuse_causal("Linformer", causal)
    keys = project_length(k, key_projection, mask)
    values = project_length(v, value_projection, mask)
    return slot_attention(q, keys, values)


def project_length(
    x: Float[Tensor, "b *h n d"],
    projection: Float[Tensor, "longest r"],
    mask: Bool[Tensor, "b n"] | None = None,
) -> Float[Tensor, "b *h r d"]:
    """P^T x over the positions, with the first n rows of P; padded tokens take no part."""
    n = x.shape[-2]
    require_length("the Linformer projection", projection.shape[0], n)
    rows = projection[:n].mT  # (r, n)
    if mask is not None:  # far smaller than masking x
        rows = rows * mask.view(mask.shape[0], *[1] * (x.dim() - 2), n)  # (b, 1, r, n)
    return torch.matmul(rows, x)


def slot_attention(
    q: Float[Tensor, "b h n d"], keys: Float[Tensor, "b h r d"], values: Float[Tensor, "b h r e"]
) -> Float[Tensor, "b h n e"]:
    """Every position over the same few slots."""
    if keys.shape[2] > FEW_SLOTS:
        return F.scaled_dot_product_attention(q, keys, values)
    scores = q @ (keys.mT / math.sqrt(q.shape[-1]))  # (b, h, n, r)
    return scores.softmax(-1) @ values


@operator(Linformer)
class LinformerOp(MechanismOp):
    """Keys and values mixed along the length, up to the longest input."""

    def __init__(self, node: Linformer, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__(node, attention, site, builder)
        shape = (site.longest or 0, node.slots)
        self.keys = nn.Parameter(torch.empty(shape))
        self.values = None if node.shared else nn.Parameter(torch.empty(shape))
        for table in self.parameters():
            nn.init.xavier_uniform_(table)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        values, mask = self.keys if self.values is None else self.values, self.real_keys(sight)
        return linformer_attention(
            q, k, v, key_projection=self.keys, value_projection=values, mask=mask
        )
