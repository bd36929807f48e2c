"""BigBird attention: global first and last block, a window of three, a few random ones, O(length).

Paper: "Big Bird", Zaheer et al. 2020, https://arxiv.org/abs/2007.14062
Differs from the paper: nothing in the pattern (the 'internal' variant). The public code and the
Long Range Arena's may draw a window block again as a random one near the end; here no block ever
counts twice. As in the Long Range Arena code random blocks come from the first ``plan_length``
positions (None draws from all). Global, window and random keys are three parts of one softmax, so
only the random ones are copied.
"""

from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from formwright.arch import Attention, BigBird, Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels.shared import (
    Part,
    attend,
    attend_parts,
    bias_from,
    pad_mask,
    pad_positions,
    refuse_causal,
    require_positive,
    sliding_windows,
)
from formwright.ops.base import Builder, Context, operator

# b batch, h head, n position, d query/key size per head, e value size per head
# g blocks, i = g - 2 inner blocks (neither first nor last), r random blocks per inner block


def bigbird_attention(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h n d"],
    v: Float[Tensor, "b h n e"],
    *,
    mask: Bool[Tensor, "b n"] | None = None,
    causal: bool = False,
    block: int = 64,
    plan: Int[Tensor, "h i r"] | None = None,
) -> Float[Tensor, "b h n e"]:
    """Attend over the blocks that each block sees; ``plan`` comes from ``random_plan``.

    Without a plan there are no random blocks. The length is filled up to whole blocks.
    """
    refuse_causal("BigBird", causal)
    require_positive(block=block)
    n = q.shape[2]
    fill = -n % block
    groups = (n + fill) // block
    if groups <= 3:  # first, last and the one between them see everything
        return attend(q, k, v, mask=mask)
    mask = pad_mask(mask, q, 0, fill)
    q, k, v = (pad_positions(x, 0, fill) for x in (q, k, v))

    edge, inner = [block, (groups - 2) * block, block], groups - 2
    q_first, q_inner, q_last = q.split(edge, dim=2)
    parts = [_global_part(k, v, mask, block), _window_part(k, v, mask, block)]
    if plan is not None and plan.shape[-1]:
        if plan.shape[:2] != (q.shape[1], inner):
            raise ValueError(
                f"The plan is for {tuple(plan.shape[:2])} heads and inner blocks, the input has "
                f"{(q.shape[1], inner)}. Draw it with random_plan(length={n}, ...)."
            )
        parts.append(_random_part(k, v, mask, plan.to(q.device)))
    middle = attend_parts(q_inner, parts)
    outer = attend(torch.cat([q_first, q_last], dim=2), k, v, mask=mask)
    first, last = outer.split(block, dim=2)
    return torch.cat([first, middle, last], dim=2)[:, :, :n]


@lru_cache(maxsize=256)
def random_plan(
    length: int,
    heads: int,
    *,
    seed: int,
    block: int = 64,
    random_blocks: int = 3,
    plan_length: int | None = 1024,
) -> Int[Tensor, "h i r"]:
    """Random blocks of each inner block and head; -1 where fewer than ``random_blocks`` exist.

    Never the first or last block, never one of the window, never one twice. A head's plan depends
    on the seed and the number of blocks alone, not on how many heads come after it.
    """
    groups = -(-length // block)
    last = groups - 2 if plan_length is None else min(groups - 2, plan_length // block - 1)
    rng = np.random.RandomState(seed)
    plan = np.full((heads, max(groups - 2, 0), random_blocks), -1)
    candidates = np.arange(1, last + 1)
    for head in range(heads):
        for row in range(1, groups - 1):
            allowed = candidates[abs(candidates - row) > 1]
            drawn = rng.permutation(allowed)[:random_blocks]
            plan[head, row - 1, : len(drawn)] = drawn
    return torch.from_numpy(plan)


def _global_part(k: Tensor, v: Tensor, mask: Tensor | None, block: int) -> Part:
    """First and last block, seen by every row."""
    key, value = (torch.cat([x[:, :, :block], x[:, :, -block:]], dim=2) for x in (k, v))
    if mask is None:
        return Part(key, value, None)
    real = torch.cat([mask[:, :block], mask[:, -block:]], dim=1)
    return Part(key, value, bias_from(real, k.dtype)[:, None, None])


def _window_part(k: Tensor, v: Tensor, mask: Tensor | None, block: int) -> Part:
    """The block before, the own and the next one, without those that are global already."""
    batch, inner = k.shape[0], k.shape[2] // block - 2
    key, value = (sliding_windows(x, blocks=3, step=block) for x in (k, v))
    local = torch.ones(batch, k.shape[2], dtype=torch.bool, device=k.device)
    local[:, :block] = False
    local[:, -block:] = False
    if mask is not None:
        local &= mask
    visible = local.unfold(1, 3 * block, block).reshape(batch * inner, 1, 1, 3 * block)
    return Part(key, value, bias_from(visible, k.dtype))


def _random_part(k: Tensor, v: Tensor, mask: Tensor | None, plan: Tensor) -> Part:
    """The blocks of the plan, copied side by side for each inner block and head."""
    batch, heads, n, _ = k.shape
    _, inner, random = plan.shape
    groups, rows = inner + 2, plan.transpose(0, 1)  # (i, h, r)
    drawn = rows.clamp(min=0)

    # One row per head and block is long and contiguous, which is what index_select is fast at.
    first = torch.arange(batch * heads, device=k.device).view(batch, 1, heads, 1) * groups
    index = (first + drawn).flatten()  # (b i h r)
    key, value = (
        x.reshape(batch * heads * groups, -1)
        .index_select(0, index)
        .view(batch * inner, heads, random * (n // groups), -1)
        for x in (k, v)
    )

    block = n // groups
    visible = (rows >= 0)[..., None].expand(-1, -1, -1, block)  # (i, h, r, block)
    visible = visible.reshape(1, inner, heads, 1, random * block)
    if mask is not None:
        real = mask.view(batch, groups, block)[:, drawn]  # (b, i, h, r, block)
        visible = visible & real.reshape(batch, inner, heads, 1, random * block)
    elif bool((rows >= 0).all()):
        return Part(key, value, None)
    bias = bias_from(visible, k.dtype).expand(batch, -1, -1, -1, -1)
    return Part(key, value, bias.flatten(0, 1))


@operator(BigBird)
class BigBirdOp(MechanismOp):
    """Window, global and random blocks; which are random follows from the layer's number."""

    def __init__(self, node: BigBird, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__(node, attention, site, builder)
        self.seed = builder.slot()

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        block, count = self.node.block, self.node.random_blocks
        plan = random_plan(q.shape[2], self.heads, seed=self.seed, block=block, random_blocks=count)
        return bigbird_attention(q, k, v, mask=sight.keys, block=block, plan=plan)
