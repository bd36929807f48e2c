"""Full, depthwise and separable convolution over the sequence.

Paper of the last two: Kaiser et al. 2017, https://arxiv.org/abs/1706.03059
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch import Conv, DepthwiseConv, SeparableConv, Site
from formwright.ops.base import Builder, Context, Operator, operator
from formwright.ops.conv.window import depthwise, neighbourhood


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


@operator(DepthwiseConv)
class DepthwiseConvOp(Operator):
    """One kernel per channel; taps run from the oldest token to the newest."""

    def __init__(self, node: DepthwiseConv, site: Site, builder: Builder) -> None:
        super().__init__()
        self.kernel, self.causal, self.slot = node.kernel, site.causal, builder.slot()
        self.weight = nn.Parameter(torch.empty(site.width, node.kernel))
        self.bias = nn.Parameter(torch.zeros(site.width)) if node.bias else None
        nn.init.uniform_(self.weight, -(node.kernel**-0.5), node.kernel**-0.5)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        x = neighbourhood(x, self.kernel, self.causal, self.slot, ctx)
        return depthwise(x, self.weight, self.bias)


@operator(SeparableConv)
class SeparableConvOp(Operator):
    """Depthwise, then dense over channels; several units are stacked with ReLU between."""

    def __init__(self, node: SeparableConv, site: Site, builder: Builder) -> None:
        super().__init__()
        out, width = node.out_width(site), site.width
        depthwise_node = DepthwiseConv(node.kernel)
        self.depthwise, self.pointwise = nn.ModuleList(), nn.ModuleList()
        for _ in range(node.units):
            self.depthwise.append(DepthwiseConvOp(depthwise_node, site.at(width), builder))
            self.pointwise.append(nn.Linear(width, out))
            width = out

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        for unit, (spread, mix) in enumerate(zip(self.depthwise, self.pointwise, strict=True)):
            x = mix(spread(F.relu(x) if unit else x, ctx))
        return x
