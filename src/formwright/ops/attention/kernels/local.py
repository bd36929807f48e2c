"""Local attention: each token sees the tokens of its own block and nothing else, O(length).

Paper: "Long Range Arena", Tay et al. 2020, https://arxiv.org/abs/2011.04006
Differs from the paper: the Long Range Arena code fills the last block with zero keys that stay
visible; here they do not exist. ``visible_padding=True`` gives the Long Range Arena behaviour.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from formwright.arch.mechanism import Local
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels.shared import (
    attend,
    group_rows,
    pad_positions,
    require_positive,
    ungroup_rows,
)
from formwright.ops.base import Context, operator

# b batch, h head, n position, d query/key size per head, e value size per head


def local_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    block: int = 50,
    visible_padding: bool = False,
) -> Float[Tensor, "b h n e"]:
    """Token i sees token j iff i // block == j // block (and j <= i when causal)."""
    require_positive(block=block)
    batch, _, n, _ = q.shape
    blocks, tail = divmod(n, block)
    # The last, shorter block is a piece of its own: padding would copy all of q, k and v.
    sizes = [n - tail, tail] if blocks and tail else [n]
    pieces = list(zip(*(x.split(sizes, dim=2) for x in (q, k, v)), strict=True))
    masks = [None] * len(sizes) if mask is None else list(mask.split(sizes, dim=1))

    outs = []
    if blocks:
        rows = [group_rows(x, blocks) for x in pieces.pop(0)]  # each (b blocks, h, block, d)
        real = masks.pop(0)
        real = None if real is None else real.reshape(-1, block)
        outs.append(ungroup_rows(attend(*rows, mask=real, causal=causal), batch))
    if tail:
        rest_q, rest_k, rest_v = pieces.pop()
        real = masks.pop()
        if visible_padding:
            rest_k, rest_v = (pad_positions(x, 0, block - tail) for x in (rest_k, rest_v))
            real = None if real is None else F.pad(real, (0, block - tail), value=True)
        outs.append(attend(rest_q, rest_k, rest_v, mask=real, causal=causal))
    return outs[0] if len(outs) == 1 else torch.cat(outs, dim=2)


@operator(Local)
class LocalOp(MechanismOp):
    """Blocks that do not overlap."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        block, lra = self.node.block, self.node.lra
        return local_attention(q, k, v, block=block, visible_padding=lra, **sight.told)
