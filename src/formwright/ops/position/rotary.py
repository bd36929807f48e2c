"""Rotary positions. Paper: "RoFormer", Su et al. 2021, https://arxiv.org/abs/2104.09864

Differs from the paper: channel i is paired with i + d/2 (as in Llama), not with its neighbour.
"""

import torch
from torch import Tensor

from formwright.arch.position import Rotary
from formwright.ops.base import Context, operator
from formwright.ops.position.base import PositionOp, PositionPart


class RotaryPart(PositionPart):
    """Turns queries and keys; only the new ones come here, remembered keys are turned already."""

    turns = True

    def forward(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor | None]:
        n, d = q.shape[-2], self.node.channels or q.shape[-1]
        made = ctx.table(("rotary", self.node.base, d), lambda: self._turns(n, d, ctx, q))
        cos, sin = made.unbind()
        if d == q.shape[-1]:
            return rotated(q, cos, sin), rotated(k, cos, sin), None
        q, k = (torch.cat((rotated(x[..., :d], cos, sin), x[..., d:]), dim=-1) for x in (q, k))
        return q, k, None

    def _turns(self, n: int, d: int, ctx: Context, like: Tensor) -> Tensor:
        # in float64: a float32 angle of a far token is off by more than its own precision
        steps = torch.arange(0, d, 2, device=like.device, dtype=torch.float64)
        rates = self.node.base ** (-steps / d)
        positions = torch.arange(ctx.offset, ctx.offset + n, device=like.device)
        angles = positions[:, None] * rates[None, :]
        angles = torch.cat((angles, angles), dim=-1)  # (n, d)
        return torch.stack((angles.cos(), angles.sin())).to(like.dtype)


@operator(Rotary)
class RotaryOp(PositionOp):
    """Holds nothing: the angles follow from the position."""

    part_class = RotaryPart


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Each pair (i, i + d/2) turned by its angle."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin
