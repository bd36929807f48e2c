"""Gates multiplied into the weights of what they gate, so that a plain model needs none."""

import torch
from torch import nn

from formwright.errors import SpecError
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.container import StackOp
from formwright.ops.feedforward.feedforward import FeedForwardOp
from formwright.ops.feedforward.linear import LinearOp
from formwright.supernet.extract import Kept, live, live_branches
from formwright.supernet.gates import GateHolder, plain_number
from formwright.supernet.mixture import GatedOp


@torch.no_grad()
def fold_gates(plain: nn.Module, super_: nn.Module, holder: GateHolder) -> None:
    """Scale the blocks of a plain model as the gates scale them in the supernet."""
    children = dict(super_.named_children())
    for name, child in plain.named_children():
        if name not in children:
            continue
        if isinstance(child, nn.ModuleList):
            found: list[Kept] = (
                live_branches(super_, holder)
                if isinstance(super_, GatedOp)
                else [kept for item in children[name].children() for kept in live(item, holder)]
            )
            factors = _factors(super_, found)
            for one, (other, _), factor in zip(child, found, factors, strict=True):
                _scale(one, factor)
                fold_gates(one, other, holder)
        else:
            for other, _ in live(children[name], holder):
                fold_gates(child, other, holder)


def _factors(super_: nn.Module, found: list[Kept]) -> list[float]:
    """What each branch is multiplied by; a mean of n divides by n, not by the sum of gates."""
    gates = [plain_number(gate) for _, gate in found]
    if not isinstance(super_, GatedOp) or super_.node.join == "sum":
        return gates
    divisor = plain_number(super_.divisor(super_.gates()))
    return [gate * len(found) / divisor for gate in gates]


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
    if last is None:
        raise SpecError(
            f"A gate of {factor:g} cannot be multiplied into {type(module).__name__}, which ends "
            "in no matrix; end the block with linear, or use gates of 0 and 1."
        )
    for weight in last.parameters():
        weight.mul_(factor)
