"""T5's learned bias per bucket of distance. Paper: Raffel et al. 2019, https://arxiv.org/abs/1910.10683"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Attention, Site, T5Buckets
from formwright.ops.base import Context, operator
from formwright.ops.position.base import PositionOp, PositionPart, distances


class T5Part(PositionPart):
    """Looks the bias up; owns a table where layers do not share one."""

    def __init__(self, node: T5Buckets, attention: Attention, site: Site) -> None:
        super().__init__(node, attention, site)
        if not node.share:
            self.weight = nn.Parameter(torch.zeros(node.buckets, attention.heads))

    def forward(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor | None]:
        n, t = q.shape[-2], k.shape[-2]
        if not self.node.share:
            return q, k, self._bias(self.weight, n, t)
        table: Any = ctx.position
        weight: Tensor = table.weight
        bias = ctx.table(("t5", id(weight), n, t), lambda: self._bias(weight, n, t))
        return q, k, bias

    def _bias(self, weight: Tensor, n: int, t: int) -> Tensor:
        far = distances(n, t, weight.device)
        index = buckets(far, self.node.buckets, self.node.distance, causal=self.causal)
        return weight[index].permute(2, 0, 1)  # (h, n, t)


@operator(T5Buckets)
class T5BucketsOp(PositionOp):
    """The table, where all layers share it."""

    part_class = T5Part

    def __init__(self, node: T5Buckets, site: Site, size: int, attention: Attention | None) -> None:
        super().__init__(node, site, size, attention)
        if node.share and attention is not None:
            self.weight = nn.Parameter(torch.zeros(node.buckets, attention.heads))


def buckets(distance: Tensor, count: int, farthest: int, *, causal: bool) -> Tensor:
    """The bucket of each distance: half for small ones, half growing up to ``farthest``."""
    if causal:
        distance, base = distance.clamp(min=0), torch.zeros_like(distance)
    else:
        count //= 2
        base, distance = (distance < 0) * count, distance.abs()
    exact = count // 2
    scale = (count - exact) / math.log(farthest / exact)
    log = exact + ((distance.clamp(min=1) / exact).log() * scale).long()
    return base + torch.where(distance < exact, distance, log.clamp(max=count - 1))
