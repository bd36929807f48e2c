"""A supernet that begins with the weights of a trained model: every member is a slice of it."""

import torch
from torch import nn

from formwright.errors import SpecError
from formwright.model import Model
from formwright.space.choice import Value
from formwright.supernet.elastic import ElasticOp
from formwright.supernet.extract import pairs
from formwright.supernet.gates import GateHolder
from formwright.supernet.mixture import DepthOp
from formwright.supernet.supernet import Supernet
from formwright.supernet.transfer import take_over


@torch.no_grad()
def adopt(supernet: Supernet, donor: Model) -> float:
    """Give a supernet the weights of a trained model, copy by copy and layer by layer.

    The copies of its units stand for the donor's layers in their order; where the supernet is
    narrower, it gets the first channels, heads and rows. What the donor has not stays as it is.

    Returns:
        The share of the largest member's weights that were taken over.
    """
    largest: dict[str, Value] = {name: slot.values[-1] for name, slot in supernet.slots.items()}
    share = 0.0
    for taken, layers in _depths(supernet):
        decisions = supernet.space.checked({**largest, **taken})
        member = supernet.extract(decisions)
        share = take_over(member, donor, layers)
        with supernet.gated(decisions):
            give_weights(member, supernet, supernet.holder)
    return share


def _depths(supernet: Supernet) -> list[tuple[dict[str, Value], dict[int, int] | None]]:
    """For each depth, the decision and the donor's layer that each layer stands for."""
    rows = [module for module in supernet.modules() if isinstance(module, DepthOp)]
    if not rows:
        return [({}, None)]
    if len(rows) > 1:
        raise SpecError("Only a supernet with one row of layers can take over a model's.")
    (row,) = rows
    name, values = row.name, supernet.slots[row.name].values
    sizes = {_length(unit) for unit in row.units}
    if len(sizes) > 1:
        raise SpecError("Copies of different lengths cannot stand for the layers of one model.")
    (each,) = sizes
    found: list[tuple[dict[str, Value], dict[int, int] | None]] = []
    for value, kept in zip(values, row.kept, strict=True):
        stands = ((i * each + j, k * each + j) for i, k in enumerate(kept) for j in range(each))
        found.append(({name: value}, dict(stands)))
    return found


def _length(unit: nn.Module) -> int:
    layers = getattr(unit, "layers", None)
    return len(layers) if isinstance(layers, nn.ModuleList) else 1


@torch.no_grad()
def give_weights(plain: nn.Module, super_: nn.Module, holder: GateHolder) -> None:
    """Write the weights of a plain model where a supernet has them: ``copy_weights``, backwards.

    For members of the largest sizes, whose tensors are those of the supernet itself.
    """
    if isinstance(super_, ElasticOp):
        state = super_.slices()
        for name, tensor in plain.state_dict().items():
            state[name].copy_(tensor)
        return
    for name, tensor in (
        *plain.named_parameters(recurse=False),
        *plain.named_buffers(recurse=False),
    ):
        goal = getattr(super_, name)
        if goal.shape == tensor.shape:  # positions that no layer looks at may differ
            goal.copy_(tensor)
    for child, (other, _) in pairs(plain, super_, holder):
        give_weights(child, other, holder)
