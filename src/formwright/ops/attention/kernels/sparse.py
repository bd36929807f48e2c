"""Sparse Transformer, 'fixed' pattern: own block and the summary columns of earlier blocks.

Paper: "Generating Long Sequences with Sparse Transformers", Child et al. 2019,
https://arxiv.org/abs/1904.10509
Differs from the paper: both patterns are merged in every head. As in the Long Range Arena code the
first column of a block is a summary column too (``first_column=False`` gives the paper), and
``sparse_cls_attention`` is its rule for a leading CLS token: blocks start behind it, and it sees
and is seen by all. The Long Range Arena code masks a dense score matrix; here the cost is
O(length * (block + summary * length / block)), which is O(length^1.5) for blocks of sqrt(length).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from formwright.arch.mechanism import Sparse
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels.shared import (
    Part,
    attend,
    attend_parts,
    bias_from,
    group_rows,
    pad_positions,
    require_positive,
)
from formwright.ops.base import Context, operator

# b batch, h head, n position, d query/key size per head, e value size per head
# g blocks of l tokens, s summary columns in all


def sparse_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    block: int = 50,
    summary: int = 10,
    first_column: bool = True,
) -> Float[Tensor, "b h n e"]:
    """Token i sees j <= i in its own block or in a summary column: the last ``summary`` of a block.

    The pattern is causal by itself, so ``causal`` changes nothing.
    """
    require_positive(block=block)
    columns = _summary_columns(block, summary, first_column)
    return _blocked((q, k, v), None, mask, (block, columns))


def sparse_cls_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    block: int = 50,
    summary: int = 10,
    first_column: bool = True,
) -> Float[Tensor, "b h n e"]:
    """The same for a sequence that starts with a CLS token, which sees and is seen by all.

    ``causal`` keeps the CLS token from seeing what comes after it; the rest is causal anyway.
    """
    require_positive(block=block)
    top = attend(q[:, :, :1], k, v, mask=mask, causal=causal)
    if q.shape[2] == 1:
        return top
    columns = _summary_columns(block, summary, first_column)
    tokens = (q[:, :, 1:], k[:, :, 1:], v[:, :, 1:])
    rest = _blocked(tokens, (k[:, :, :1], v[:, :, :1]), mask, (block, columns))
    return torch.cat([top, rest], dim=2)


def _summary_columns(block: int, summary: int, first_column: bool) -> list[int]:
    last = set(range(max(block - summary, 0), block))
    return sorted(last | {0}) if first_column else sorted(last)


def _blocked(
    qkv: tuple[Tensor, Tensor, Tensor],
    cls: tuple[Tensor, Tensor] | None,
    mask: Tensor | None,
    pattern: tuple[int, list[int]],
) -> Tensor:
    """Own block densely, then one shared part with the CLS column and all summary columns."""
    n = qkv[0].shape[2]
    block, columns = min(pattern[0], n), pattern[1]
    fill = -n % block
    groups = (n + fill) // block
    q, k, v = (pad_positions(x, 0, fill) for x in qkv)

    # Rows never look ahead, so the filled positions behind the end need no mask.
    visible = torch.ones(block, block, dtype=torch.bool, device=q.device).tril()[None, None]
    if mask is not None:
        own = F.pad(mask[:, -n:], (0, fill)).reshape(-1, 1, 1, block)  # (b g, 1, 1, l)
        visible = visible & own
    parts = [Part(group_rows(k, groups), group_rows(v, groups), bias_from(visible, q.dtype))]

    keys, values = [], []
    if cls is not None:
        keys.append(cls[0])
        values.append(cls[1])
    if groups > 1 and columns:
        picked = _column_positions(groups - 1, block, columns, q.device)
        keys.append(k.index_select(2, picked))
        values.append(v.index_select(2, picked))
    if keys:
        seen = _shared_bias(q, mask, (groups, block, columns), cls is not None)
        parts.append(Part(torch.cat(keys, 2), torch.cat(values, 2), seen))
    return attend_parts(q, parts)[:, :, :n]


def _column_positions(blocks: int, block: int, columns: list[int], device: torch.device) -> Tensor:
    """Positions of all summary columns; those of the last block are left out, nobody sees them."""
    starts = torch.arange(blocks, device=device)[:, None] * block
    return (starts + torch.tensor(columns, device=device)).flatten()  # (s,)


def _shared_bias(
    q: Tensor, mask: Tensor | None, pattern: tuple[int, int, list[int]], has_cls: bool
) -> Tensor:
    """Hide summary columns of the own and later blocks and of padding, (1 or b, 1, n, s)."""
    groups, block, columns = pattern
    row_block = torch.arange(groups, device=q.device).repeat_interleave(block)
    column_block = torch.arange(groups - 1, device=q.device).repeat_interleave(len(columns))
    if has_cls:
        column_block = F.pad(column_block, (1, 0), value=-1)  # before every block
    visible = (row_block[:, None] > column_block)[None, None]
    if mask is not None:
        picked = _column_positions(groups - 1, block, columns, q.device)
        if has_cls:
            picked = F.pad(picked + 1, (1, 0))  # positions in the mask count the CLS token
        visible = visible & mask[:, None, None, picked]
    return bias_from(visible, q.dtype)


@operator(Sparse)
class SparseOp(MechanismOp):
    """Own block and summary columns, never ahead."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        mixed = sparse_cls_attention if self.node.lra else sparse_attention
        block, summary, lra = self.node.block, self.node.summary, self.node.lra
        return mixed(q, k, v, block=block, summary=summary, first_column=lra, **sight.told)
