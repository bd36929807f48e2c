"""Primer's custom norm. Paper: So et al. 2021, https://arxiv.org/abs/2109.08668

mean(x (x - mean)) is the variance, so this is LayerNorm in exact arithmetic; written as found.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch.layer import PrimerNorm
from formwright.arch.site import Site
from formwright.ops.base import Builder, Context, Operator, operator


@operator(PrimerNorm)
class PrimerNormOp(Operator):
    """(x - mean) / sqrt(mean(x (x - mean))), scaled and shifted."""

    def __init__(self, node: PrimerNorm, site: Site, builder: Builder) -> None:
        super().__init__()
        self.eps = node.eps
        self.weight = nn.Parameter(torch.ones(site.width))
        self.bias = nn.Parameter(torch.zeros(site.width))

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        centred = x - x.mean(dim=-1, keepdim=True)
        spread = (x * centred).mean(dim=-1, keepdim=True)
        return centred * torch.rsqrt(spread + self.eps) * self.weight + self.bias
