"""Gates multiplied into the weights of what they gate, so that a plain model needs none."""

import torch
from torch import nn

from formwright.errors import SpecError
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.container import ResidualOp, StackOp
from formwright.ops.feedforward.feedforward import FeedForwardOp, LinearOp
from formwright.supernet.elastic import ElasticOp
from formwright.supernet.extract import pairs
from formwright.supernet.gates import GateHolder, plain_number
from formwright.supernet.mixture import GatedOp


@torch.no_grad()
def fold_gates(plain: nn.Module, super_: nn.Module, holder: GateHolder) -> None:
    """Scale the blocks of a plain model as the gates scale them in the supernet."""
    found = [] if isinstance(super_, ElasticOp) else list(pairs(plain, super_, holder))
    many, divisor = 1, 1.0
    if isinstance(super_, GatedOp) and super_.node.join == "mean":  # by n, not by the gates' sum
        many, divisor = len(found), plain_number(super_.divisor(super_.gates()))
    for child, (other, gate) in found:
        _scale(child, plain_number(gate) * many / divisor)
        fold_gates(child, other, holder)


def _scale(module: nn.Module, factor: float) -> None:
    if factor == 1.0:
        return
    last: nn.Module | None = None
    match module:
        case AttentionOp():
            last = module.out
        case FeedForwardOp():
            last = module.down
        case LinearOp():
            last = module.map
        case StackOp() if len(module.layers):
            _scale(module.layers[-1], factor)
            return
        case ResidualOp():
            _scale(module.inner, factor)
            return
    if last is None:
        raise SpecError(
            f"A gate of {factor:g} cannot be multiplied into {type(module).__name__}, which ends "
            "in no matrix; end the block with linear, or use gates of 0 and 1."
        )
    for weight in last.parameters():
        weight.mul_(factor)
