"""A dense map per token, and its gated form.

GLU paper: Dauphin et al. 2017, https://arxiv.org/abs/1612.08083
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch.layer import GLU, Linear
from formwright.arch.site import Site
from formwright.ops.base import Builder, Context, Operator, operator


@operator(Linear)
class LinearOp(Operator):
    """One dense map."""

    def __init__(self, node: Linear, site: Site, builder: Builder) -> None:
        super().__init__()
        self.map = nn.Linear(site.width, node.out, bias=node.bias)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        return self.map(x)


@operator(GLU)
class GLUOp(Operator):
    """One half of a dense map times the sigmoid of the other."""

    def __init__(self, node: GLU, site: Site, builder: Builder) -> None:
        super().__init__()
        self.map = nn.Linear(site.width, 2 * node.out_width(site), bias=node.bias)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        return F.glu(self.map(x), dim=-1)
