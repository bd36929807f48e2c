"""Taking a member out of a supernet: a plain model with the weights it had inside.

Both are trees of modules of the same shape, but for the open places: a mixture stands for the
option that was chosen, a depth for its units, laid into the list around them.
"""

from collections.abc import Iterator
from copy import deepcopy

import torch
from torch import nn

from formwright.arch.layer import FeedForward
from formwright.errors import SpecError
from formwright.ops.components import kept_attention, kept_feedforward
from formwright.ops.container import IdentityOp, ResidualOp
from formwright.ops.feedforward.feedforward import FeedForwardOp
from formwright.space.part import Decisions
from formwright.supernet.elastic import ElasticOp
from formwright.supernet.gates import Gate, GateHolder, is_off, plain_number
from formwright.supernet.masks import kept_indices
from formwright.supernet.mixture import (
    DepthOp,
    GatedOp,
    MixtureOp,
    PresenceOp,
    RowOp,
)

Kept = tuple[nn.Module, Gate]  # a module of the supernet, and the gate it stood behind


@torch.no_grad()
def copy_weights(plain: nn.Module, super_: nn.Module, holder: GateHolder) -> None:
    """Give a plain model the weights that a supernet has under hard gates."""
    if isinstance(super_, ElasticOp) and super_.sliced:
        plain.load_state_dict(kept_state(super_))
        return
    if isinstance(super_, ElasticOp):
        state = super_.slices()
        plain.load_state_dict({name: state[name] for name in plain.state_dict()})
        return
    for name, tensor in (
        *plain.named_parameters(recurse=False),
        *plain.named_buffers(recurse=False),
    ):
        source = getattr(super_, name)
        if source.shape == tensor.shape:  # positions that no layer looks at may differ
            tensor.copy_(source)
    for child, (other, _) in pairs(plain, super_, holder):
        copy_weights(child, other, holder)


def pairs(
    plain: nn.Module, super_: nn.Module, holder: GateHolder
) -> Iterator[tuple[nn.Module, Kept]]:
    """The modules inside a plain one, each with what it is in the supernet."""
    children = dict(super_.named_children())
    for name, child in plain.named_children():
        if not isinstance(child, nn.ModuleList):
            (found,) = live(children[name], holder) or [(nn.Identity(), 1.0)]
            yield child, found
        elif isinstance(super_, GatedOp):
            yield from zip(child, live_branches(super_, holder), strict=True)
        else:
            items = (kept for item in children[name].children() for kept in live(item, holder))
            yield from zip(child, items, strict=True)


def live(module: nn.Module, holder: GateHolder) -> list[Kept]:
    """The plain layers that a module of a supernet stands for under the gates."""
    match module:
        case RowOp():
            return [kept for layer in module.layers for kept in live(layer, holder)]
        case MixtureOp():
            pairs = list(zip(module.options, holder.row(module.name), strict=True))
            chosen = [(option, gate) for option, gate in pairs if not is_off(gate)]
            if len(chosen) > 1:  # nothing may share with one branch, which takes its gate on
                chosen = [(option, gate) for option, gate in chosen if not _is_nothing(option)]
            if len(chosen) != 1:
                raise SpecError(f"The decision {module.name!r} is not taken: use hard gates.")
            return _weighed(live(chosen[0][0], holder), chosen[0][1])
        case PresenceOp():
            gate = holder.row(module.name)[module.index]
            return [] if is_off(gate) else _weighed(live(module.layer, holder), gate)
        case DepthOp():
            gates = holder.row(module.name)
            deepest = max((i for i, g in enumerate(gates) if not is_off(g)), default=0)
            units = [module.units[number] for number in module.kept[deepest]]
            return [kept for unit in units for kept in live(unit, holder)]
    return [(module, 1.0)]


def _is_nothing(option: nn.Module) -> bool:
    return isinstance(option, IdentityOp) or (isinstance(option, RowOp) and not len(option.layers))


def _weighed(found: list[Kept], gate: Gate) -> list[Kept]:
    """A branch that reads the stream through a norm, and adds to it, takes the gate on itself."""
    if len(found) != 1:
        return found
    ((layer, own),) = found
    takes = isinstance(layer, ResidualOp) and (layer.place == "pre" or layer.norm is None)
    return [(layer, plain_number(own) * plain_number(gate))] if takes else found


def live_branches(module: GatedOp, holder: GateHolder) -> list[Kept]:
    """The branches that are on, each with its gate."""
    pairs = zip(module.branches, module.gates(), strict=True)
    return [
        (inner, gate)
        for branch, gate in pairs
        if not is_off(gate)
        for inner, _ in live(branch, holder)
    ]


def kept_state(operator: ElasticOp) -> dict[str, torch.Tensor]:
    """Weights of the operator that is left where gates on slices are not 0."""
    whole = deepcopy(operator.whole)
    whole.load_state_dict({**whole.state_dict(), **operator.weighed()})
    found = {field: kept_indices(mask) for field, mask in operator.masks().items()}
    if isinstance(whole, FeedForwardOp):
        assert isinstance(operator.large, FeedForward)
        part: nn.Module = kept_feedforward(whole, operator.large, operator.site, found["inner"])
    else:
        part = kept_attention(
            whole,
            operator.site,
            groups=found.get("heads"),
            key=found.get("key"),
            value=found.get("value"),
        )
    return part.state_dict()


def decisions_under(holder: GateHolder) -> Decisions:
    """The member that the gates stand for: of one the greatest, of some all that are not 0."""
    found: dict[str, int | float | tuple[int, ...]] = {}
    for name, slot in holder.slots.items():
        if not slot.gated:
            found[name] = holder.sizes[name]
            continue
        row = [plain_number(gate) for gate in holder.row(name)]
        if slot.kind == "some":
            found[name] = tuple(i for i, gate in enumerate(row) if gate != 0)
        else:
            found[name] = slot.values[max(range(len(row)), key=row.__getitem__)]
    return found
