"""A peak rate that suits a model's shape, so that models of different sizes compare fairly.

The wider and the deeper a model, the more its output changes when every weight moves by the same
amount, as Adam moves them. Measured by benchmarks/rates.py: the best rate goes with width^-1.01 and
depth^-0.53, which is near what theory asks for (Yang et al. 2022, https://arxiv.org/abs/2203.03466,
and Bordelon et al. 2023, https://arxiv.org/abs/2309.16620).
"""

from formwright.arch import Architecture
from formwright.arch.layer import Residual

_WIDTH, _DEPTH = 128, 8  # where the base holds
_WIDTH_POWER, _DEPTH_POWER = 1.0, 0.5
_FURTHEST = 4.0  # times more or less than the base: what was measured reaches no further


def rate_for(arch: Architecture, base: float) -> float:
    """The peak rate of an architecture.

    Args:
        arch: What is trained.
        base: The rate of a model that is 128 wide and has 8 sub-layers.
    """
    wide, deep = arch.backbone.width / _WIDTH, sub_layers(arch) / _DEPTH
    factor = wide**-_WIDTH_POWER * deep**-_DEPTH_POWER
    return base * min(_FURTHEST, max(1 / _FURTHEST, factor))


def sub_layers(arch: Architecture) -> int:
    """How many layers add to the stream, one after the other, in all stacks."""
    stacks = [stack for _, stack, _ in arch.stacks()]
    added = sum(isinstance(node, Residual) for stack in stacks for _, node in stack.walk())
    return max(1, added or sum(len(stack.layers) for stack in stacks))
