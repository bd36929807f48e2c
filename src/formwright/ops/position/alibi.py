"""ALiBi: scores fall linearly with distance. Paper: Press et al. 2021, https://arxiv.org/abs/2108.12409"""

import math

import torch
from torch import Tensor

from formwright.arch.position import Alibi
from formwright.ops.base import Context, operator
from formwright.ops.position.base import PositionOp, PositionPart, distances


class AlibiPart(PositionPart):
    """The bias of every head."""

    def forward(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor | None]:
        n, t = q.shape[-2], k.shape[-2]

        def make() -> Tensor:
            far = distances(n, t, q.device).abs().to(q.dtype)
            return -far * slopes(self.heads).to(q)[:, None, None]  # (h, n, t)

        return q, k, ctx.table(("alibi", self.heads, n, t), make)


@operator(Alibi)
class AlibiOp(PositionOp):
    """Holds nothing: the slopes follow from the number of heads."""

    part_class = AlibiPart


def slopes(heads: int) -> Tensor:
    """A geometric row of slopes; between powers of two, every other one of the next row."""

    def row(count: int) -> list[float]:
        return [2.0 ** (-8.0 * (i + 1) / count) for i in range(count)]

    below = 2 ** math.floor(math.log2(heads))
    return torch.tensor(row(below) + row(2 * below)[0::2][: heads - below], dtype=torch.float64)
