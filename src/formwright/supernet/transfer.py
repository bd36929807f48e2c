"""Weights that one model takes over from another: equal tensors, or slices of larger ones.

The rules are those of supernets (``slicing``): the first heads, channels and rows of each. Layers
are matched one to one, or by a map from the layers of the one to those of the other; what has no
match keeps its own weights, so that a child may have a layer that its parent had not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from formwright.arch.architecture import Architecture
from formwright.arch.node import Node
from formwright.arch.site import Site
from formwright.model import Model
from formwright.ops.base import Builder
from formwright.supernet.narrow import remember_frame
from formwright.supernet.slicing import Axis, cut, owned, remember

_LAYER = "stacks.layers.layers."


@torch.no_grad()
def take_over(model: Model, donor: Model, layers: Mapping[int, int] | None = None) -> float:
    """Give a model the weights of another as far as they fit.

    Args:
        model: What is changed.
        donor: Whose weights are copied.
        layers: Layer of the model to the layer of the donor; the same number when not given.

    Returns:
        The share of the model's weights that were taken over.
    """
    theirs, given = _axes(donor.arch), donor.state_dict()
    taken = total = 0
    own = model.state_dict()
    for name, axes in _axes(model.arch).items():
        if name not in own:
            continue
        source = _renamed(name, layers)
        found = _sliced(given.get(source), theirs.get(source), axes)
        total += own[name].numel()
        if found is not None and found.shape == own[name].shape:
            own[name].copy_(found)
            taken += found.numel()
    return taken / max(1, total)


def _sliced(
    whole: Tensor | None, of: tuple[Axis, ...] | None, kept: tuple[Axis, ...]
) -> Tensor | None:
    """The part of a tensor that a smaller one is; None where it is no part of it."""
    if whole is None or of is None or [len(axis) for axis in of] != [len(axis) for axis in kept]:
        return None
    pairs = [pair for a, b in zip(of, kept, strict=True) for pair in zip(a, b, strict=True)]
    if any(wanted > there for (_, there), (_, wanted) in pairs):
        return None
    return cut(whole, *(tuple(tuple(n for _, n in axis) for axis in axes) for axes in (of, kept)))


def _renamed(name: str, layers: Mapping[int, int] | None) -> str:
    """The same tensor in the layer of the donor that stands for this one."""
    if layers is None or not name.startswith(_LAYER):
        return name
    number, _, rest = name.removeprefix(_LAYER).partition(".")
    return f"{_LAYER}{layers.get(int(number), -1)}.{rest}"


@dataclass
class _Remembering(Builder):
    """Builds as ever; every module knows what it was built from."""

    def build(self, node: Node, site: Site) -> Any:
        module = super().build(node, site)
        remember(module, node, site)
        return module


def remembering(model: Model) -> Model:
    """A copy of a model whose modules know what they were built from, as ``reorder`` needs it."""
    weight = next(model.parameters())
    with torch.random.fork_rng(devices=[]):
        made = Model(model.arch, _Remembering()).to(weight)
    made.load_state_dict(model.state_dict())
    remember_frame(made)
    return made.train(model.training)


def _axes(arch: Architecture) -> dict[str, tuple[Axis, ...]]:
    """What the axes of each tensor of an architecture are made of, without building its weights."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = Model(arch, _Remembering())
    remember_frame(model)
    return {found.name: found.axes for found in owned(model)}
