"""Positions added to the embedding: sines and cosines, or learned vectors.

Paper: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762. Differs from the paper: all sines
first, then all cosines (as in Tensor2Tensor and Transformer-XL), not interleaved.
"""

import torch
from torch import Tensor, nn

from formwright.arch import Attention, Learned, Sinusoid, Site
from formwright.errors import InputError
from formwright.ops.base import operator
from formwright.ops.position.base import PositionOp


@operator(Sinusoid)
class SinusoidOp(PositionOp):
    """Fixed waves; any length."""

    def embed(self, x: Tensor, offset: int) -> Tensor:
        positions = torch.arange(offset, offset + x.shape[1], device=x.device)
        return x + sinusoids(positions, x.shape[-1]).to(x.dtype)


@operator(Learned)
class LearnedOp(PositionOp):
    """A learned vector per position, up to the longest input."""

    def __init__(self, node: Learned, site: Site, size: int, attention: Attention | None) -> None:
        super().__init__(node, site, size, attention)
        self.weight = nn.Parameter(torch.empty(site.longest or 0, size))

    def embed(self, x: Tensor, offset: int) -> Tensor:
        end, longest = offset + x.shape[1], self.weight.shape[0]
        if end > longest:
            raise InputError(
                f"A text of {end} tokens is longer than the {longest} positions this model "
                "learned; cut it or build the model with a longer frame."
            )
        return x + self.weight[offset:end]


def sinusoids(positions: Tensor, width: int) -> Tensor:
    """Waves of growing length at these positions, (len(positions), width)."""
    half = (width + 1) // 2
    steps = torch.arange(half, device=positions.device, dtype=torch.float64)
    rates = 10000.0 ** (-2 * steps / width)
    angles = positions.to(torch.float64)[:, None] * rates[None, :]
    return torch.cat((angles.sin(), angles.cos()), dim=-1)[:, :width]
