"""Models that leave: as the class of Hugging Face's library that computes the same.

What comes out loads with that library alone: ``config`` is its config.json, ``state`` its weights.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from formwright.arch import Architecture, canonical
from formwright.arch.frame import Features, LanguageModel, MaskedLM
from formwright.errors import FormwrightError
from formwright.model.families import STOCK
from formwright.model.families.base import Family
from formwright.model.families.config import Config
from formwright.model.model import Model


@dataclass(frozen=True)
class Stock:
    """A model in Hugging Face's words."""

    config: dict[str, Any]  # config.json
    state: dict[str, Tensor]  # model.safetensors


def stock(model: Model) -> Stock | None:
    """The model as one of Hugging Face's own classes; None where it equals none of them."""
    for family in STOCK:
        found = _as(family, model)
        if found is not None:
            return found
    return None


def _as(kind: type[Family], model: Model) -> Stock | None:
    """The model as one of a family, if reading it back would give the same architecture."""
    config = kind.sketch(model.arch)
    if config is None:
        return None
    family = kind(Config(config))
    try:
        state = _written(family, model)
        if state is None:
            return None
        read = family.architecture({name: tuple(x.shape) for name, x in state.items()})
    except FormwrightError:  # a family that refuses the sketch has no such model
        return None
    if _essence(read) != _essence(model.arch):
        return None
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    return Stock({**config, "torch_dtype": dtype}, state)


def _written(family: Family, model: Model) -> dict[str, Tensor] | None:
    """The weights by their names; None where some have no place there."""
    own, arch = model.state_dict(), model.arch
    left, state = set(own), {}
    prefix = "" if isinstance(model.frame.head, Features) else family.prefix_of(arch)
    for row in family.rows(arch, own):
        tensors = [own[name].detach() for name in row.ours]
        left.difference_update(row.ours)
        if row.theirs:
            name = row.theirs[1:] if row.theirs.startswith("/") else prefix + row.theirs
            state[name] = row.form.back(*tensors).clone(memory_format=torch.contiguous_format)
        elif any(x.any() for x in tensors):  # they have nothing there
            return None
    return None if left else state


def _essence(arch: Architecture) -> Architecture:
    """The architecture without what changes nothing in the result."""
    assert arch.frame is not None
    backbone = arch.backbone.replace(init="normal")
    if not isinstance(arch.frame.head, LanguageModel | MaskedLM):  # no output layer
        backbone = backbone.replace(embedding=backbone.embedding.replace(tied=True, bias=False))
    return canonical(arch.replace(backbone=backbone))
