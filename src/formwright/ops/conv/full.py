"""A full convolution over the sequence."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch.conv import Conv
from formwright.arch.site import Site
from formwright.ops.base import Builder, Context, Operator, operator
from formwright.ops.conv.window import neighbourhood


@operator(Conv)
class ConvOp(Operator):
    """Every output channel sees every input channel of every neighbour."""

    def __init__(self, node: Conv, site: Site, builder: Builder) -> None:
        super().__init__()
        self.kernel, self.causal, self.slot = node.kernel, site.causal, builder.slot()
        out = node.out_width(site)
        self.weight = nn.Parameter(torch.empty(out, site.width, node.kernel))
        self.bias = nn.Parameter(torch.zeros(out)) if node.bias else None
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        x = neighbourhood(x, self.kernel, self.causal, self.slot, ctx)
        return F.conv1d(x.transpose(1, 2), self.weight, self.bias).transpose(1, 2)
