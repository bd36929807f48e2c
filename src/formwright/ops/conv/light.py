"""Lightweight and dynamic convolution.

Paper: "Pay Less Attention with Lightweight and Dynamic Convolutions", Wu et al. 2019,
https://arxiv.org/abs/1901.10430. Differs from the paper: the maps around the convolution (GLU
before, linear after) are nodes of their own. The form that shares by a reduction factor is that
of "The Evolved Transformer", So et al. 2019, https://arxiv.org/abs/1901.11117.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch import DynamicConv, LightConv, ReducedConv, Site
from formwright.ops.base import Builder, Context, Operator, operator
from formwright.ops.conv.window import depthwise, neighbourhood


@operator(LightConv)
class LightConvOp(Operator):
    """One kernel per head, made positive and summing to 1, shared by the head's channels."""

    def __init__(self, node: LightConv, site: Site, builder: Builder) -> None:
        super().__init__()
        self.kernel, self.causal, self.slot = node.kernel, site.causal, builder.slot()
        self.softmax, self.per_head = node.softmax, site.width // node.heads
        self.weight = nn.Parameter(torch.empty(node.heads, node.kernel))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        x = neighbourhood(x, self.kernel, self.causal, self.slot, ctx)
        weight = self.weight.softmax(dim=-1) if self.softmax else self.weight
        return depthwise(x, weight.repeat_interleave(self.per_head, dim=0))


@operator(ReducedConv)
class ReducedConvOp(Operator):
    """Shared kernels in turn, channel by channel; the last channels may have their own."""

    def __init__(self, node: ReducedConv, site: Site, builder: Builder) -> None:
        super().__init__()
        self.kernel, self.causal, self.slot = node.kernel, site.causal, builder.slot()
        self.width, self.reduction = site.width, node.reduction
        self.shared = site.width // node.reduction  # kernels that serve several channels
        multiple = node.out_width(site) // site.width
        self.weight = nn.Parameter(torch.empty(node.kernels(site.width), multiple, node.kernel))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        x = neighbourhood(x, self.kernel, self.causal, self.slot, ctx)
        weight = self.weight.softmax(dim=-1)
        shared = weight[: self.shared].repeat(self.reduction, 1, 1)
        weight = torch.cat((shared, weight[self.shared :])).flatten(0, 1)  # (out, k)
        x = F.conv1d(x.transpose(1, 2), weight.unsqueeze(1), groups=self.width)
        return x.transpose(1, 2)


@operator(DynamicConv)
class DynamicConvOp(Operator):
    """Like a lightweight convolution, with kernels made from the token itself."""

    def __init__(self, node: DynamicConv, site: Site, builder: Builder) -> None:
        super().__init__()
        self.kernel, self.causal, self.slot = node.kernel, site.causal, builder.slot()
        self.heads = node.heads
        self.taps = nn.Linear(site.width, node.heads * node.kernel, bias=False)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        weight = self.taps(x).unflatten(-1, (self.heads, self.kernel)).softmax(dim=-1)
        x = neighbourhood(x, self.kernel, self.causal, self.slot, ctx)
        windows = x.unfold(1, self.kernel, 1)  # (b, n, w, k)
        windows = windows.unflatten(2, (self.heads, -1))  # (b, n, h, c, k)
        return torch.matmul(windows, weight.unsqueeze(-1)).flatten(2)
