"""LayerNorm, with as much of the mean taken out as wished, and its relatives.

Papers: "Layer Normalization", Ba et al. 2016, https://arxiv.org/abs/1607.06450; the gated mean is
from "Finding Fast Transformers" (section 3.2); RMSNorm, Zhang and Sennrich 2019,
https://arxiv.org/abs/1910.07467; Primer's norm, So et al. 2021, https://arxiv.org/abs/2109.08668
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch import LayerNorm, PrimerNorm, RMSNorm, Site
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


@operator(RMSNorm)
class RMSNormOp(Operator):
    """x / root mean square, scaled."""

    def __init__(self, node: RMSNorm, site: Site, builder: Builder) -> None:
        super().__init__()
        self.eps = node.eps
        self.weight = nn.Parameter(torch.ones(site.width))

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)


@operator(PrimerNorm)
class PrimerNormOp(Operator):
    """(x - mean) / sqrt(mean(x (x - mean))), scaled and shifted.

    mean(x (x - mean)) is the variance, so this is LayerNorm in exact arithmetic; written as found.
    """

    def __init__(self, node: PrimerNorm, site: Site, builder: Builder) -> None:
        super().__init__()
        self.eps = node.eps
        self.weight = nn.Parameter(torch.ones(site.width))
        self.bias = nn.Parameter(torch.zeros(site.width))

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        centred = x - x.mean(dim=-1, keepdim=True)
        spread = (x * centred).mean(dim=-1, keepdim=True)
        return centred * torch.rsqrt(spread + self.eps) * self.weight + self.bias
