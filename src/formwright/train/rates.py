"""A peak rate that suits a model's shape, so that models of different sizes compare fairly.

The wider and the deeper a model, the more its output changes when every weight moves by the same
amount, as Adam moves them; see Yang et al. 2022, https://arxiv.org/abs/2203.03466, for width. The
powers are measured, by benchmarks/rates.py, and not those of the theory, which asks for other
initial weights than most families have.
"""

from formwright.arch import Architecture
from formwright.arch.layer import Residual

_WIDTH, _DEPTH = 128, 8  # where the base holds
_WIDTH_POWER, _DEPTH_POWER = 0.5, 0.25


def rate_for(arch: Architecture, base: float) -> float:
    """The peak rate of an architecture.

    Args:
        arch: What is trained.
        base: The rate of a model that is 128 wide and has 8 sub-layers.
    """
    wide, deep = arch.backbone.width / _WIDTH, sub_layers(arch) / _DEPTH
    return base * wide**-_WIDTH_POWER * deep**-_DEPTH_POWER


def sub_layers(arch: Architecture) -> int:
    """How many layers add to the stream, one after the other, in all stacks."""
    stacks = [stack for _, stack, _ in arch.stacks()]
    added = sum(isinstance(node, Residual) for stack in stacks for _, node in stack.walk())
    return max(1, added or sum(len(stack.layers) for stack in stacks))
