"""Synthesizer attention: a learned score per pair of positions, as a product of two thin matrices.

Paper: "Synthesizer", Tay et al. 2020, https://arxiv.org/abs/2005.00743
Differs from the paper: the factorised random variant, alone or added to the dot product as in the
Long Range Arena port used by DARTFormer. Quadratic in length by definition, but the factors ride
along as extra columns of queries and keys, so fused attention never stores an n x n matrix. The
Long Range Arena code has no padding mask without dot product; ``mask=None`` gives that. Initial
weights are those of Flax's Xavier rule, which counts heads as a receptive field.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from formwright.arch import Attention, Site, Synthesizer
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels.shared import attend, require_length
from formwright.ops.base import Builder, Context, operator

# b batch, h head, n position, d query/key size per head, e value size per head, f rank


def synthesizer_attention(
    q: Float[Tensor, "b h n d"] | None,
    k: Float[Tensor, "b h n d"] | None,
    v: Float[Tensor, "b h n e"],
    *,
    left: Float[Tensor, "h longest f"],
    right: Float[Tensor, "h f longest"],
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
) -> Float[Tensor, "b h n e"]:
    """softmax(q k^T / sqrt(d) + left right) v with the first n positions of both factors.

    With q and k None the dot product is left out: softmax(left right) v.
    """
    batch, _, n, e = v.shape
    require_length("the Synthesizer table", left.shape[1], n)
    rows = left[:, :n].expand(batch, -1, -1, -1)  # (b, h, n, f)
    columns = right[:, :, :n].mT.expand(batch, -1, -1, -1)  # (b, h, n, f)
    if q is not None and k is not None:
        rows = torch.cat([q / math.sqrt(q.shape[-1]), rows], dim=-1)  # (b, h, n, d + f)
        columns = torch.cat([k, columns], dim=-1)

    # The fused kernel wants one size for queries, keys and values; zero columns are neutral.
    size = max(rows.shape[-1], e)
    rows, columns, values = (F.pad(x, (0, size - x.shape[-1])) for x in (rows, columns, v))
    return attend(rows, columns, values, mask=mask, causal=causal, scale=1.0)[..., :e]


@operator(Synthesizer)
class SynthesizerOp(MechanismOp):
    """Learned scores per pair of positions, up to the longest input."""

    def __init__(
        self, node: Synthesizer, attention: Attention, site: Site, builder: Builder
    ) -> None:
        super().__init__(node, attention, site, builder)
        self.sees_padding = node.lra and attention.query_key == "none"
        longest = site.longest or 0
        self.left = nn.Parameter(torch.empty(attention.heads, longest, node.rank))
        self.right = nn.Parameter(torch.empty(attention.heads, node.rank, longest))
        # torch would take the heads for outputs: half as large at the published sizes
        bound = math.sqrt(6 / (attention.heads * max(1, longest + node.rank)))
        for table in (self.left, self.right):
            nn.init.uniform_(table, -bound, bound)

    def forward(
        self, q: Tensor | None, k: Tensor | None, v: Tensor, sight: Sight, ctx: Context
    ) -> Tensor:
        mask = None if self.sees_padding else sight.keys
        return synthesizer_attention(
            q, k, v, left=self.left, right=self.right, mask=mask, causal=sight.causal
        )
