"""RMSNorm. Paper: Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch.layer import RMSNorm
from formwright.arch.site import Site
from formwright.ops.base import Builder, Context, Operator, operator


@operator(RMSNorm)
class RMSNormOp(Operator):
    """x / root mean square, scaled."""

    def __init__(self, node: RMSNorm, site: Site, builder: Builder) -> None:
        super().__init__()
        self.eps = node.eps
        self.weight = nn.Parameter(torch.ones(site.width))

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
