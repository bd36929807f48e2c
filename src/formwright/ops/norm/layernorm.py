"""LayerNorm, with as much of the mean taken out as wished.

Paper: "Layer Normalization", Ba et al. 2016, https://arxiv.org/abs/1607.06450; the gated mean is
from "Finding Fast Transformers" (section 3.2).
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch.layer import LayerNorm
from formwright.arch.site import Site
from formwright.ops.base import Builder, Context, Operator, operator


@operator(LayerNorm)
class LayerNormOp(Operator):
    """(x - w mean) / deviation around what was subtracted, scaled and shifted."""

    def __init__(self, node: LayerNorm, site: Site, builder: Builder) -> None:
        super().__init__()
        self.eps, self.mean = node.eps, node.mean
        self.weight = nn.Parameter(torch.ones(site.width))
        self.bias = nn.Parameter(torch.zeros(site.width)) if node.bias else None

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        if self.mean == 1:
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        if self.mean == 0:
            x = F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
            return x if self.bias is None else x + self.bias
        return gated_layer_norm(x, self.mean, self.weight, self.bias, self.eps)


def gated_layer_norm(
    x: Tensor, gate: float | Tensor, weight: Tensor, bias: Tensor | None, eps: float
) -> Tensor:
    """The norm for any gate, also a learned one."""
    x = x - gate * x.mean(dim=-1, keepdim=True)
    x = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + eps) * weight
    return x if bias is None else x + bias
