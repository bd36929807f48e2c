"""Bi-branch weight sharing: both kinds of a layer's weights are passed on from parent to child.

Paper: AutoBERT-Zero, Gao et al. 2022, https://arxiv.org/abs/2107.07445. Every layer has two sets of
weights, those of attention (one matrix for each projected input, by its number) and those of a
convolution (the largest kernel, of which smaller ones are the middle). A child takes those that its
layers are made of, trains them, and leaves all of them, its own changed, to its children.
Differs from the paper: there is one store for each line of descent, in the folder of the trial, and
not one for all; so the result does not depend on who ends first, and a killed search goes on to
the same end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from formwright.arch import Architecture
from formwright.estimate.base import Work
from formwright.estimate.inherited import dropouts
from formwright.estimate.training import Training
from formwright.files import write_atomically
from formwright.model import Model, build, load_model
from formwright.ops.conv.light import LightConvOp
from formwright.tasks import Task

STORE = "branches.safetensors"
LARGEST = 65  # taps of the kernel that all others are the middle of


@dataclass(frozen=True)
class Branched(Training):
    """Training that begins with the weights of the parent's branches, and leaves its own."""

    def __call__(self, work: Work) -> Mapping[str, float]:
        values = super().__call__(work)
        place = work.folder / STORE
        if not place.exists():
            model = load_model(work.folder / "run" / "model")
            merged = kept_by(model, self._inherited(work))
            write_atomically(place, save(merged))
        return values

    def begun(self, work: Work, task: Task) -> Architecture | Model:
        model = build(work.arch.fitted(task.frame), seed=work.seed, **dropouts(self.config))
        take(model, self._inherited(work))
        return model

    def _inherited(self, work: Work) -> dict[str, Tensor]:
        return read_store(work.parents[0]) if work.parents else {}


def read_store(folder: Path) -> dict[str, Tensor]:
    """What a trial has left to its children; nothing where it failed."""
    place = folder / STORE
    return load_file(place) if place.exists() else {}


@torch.no_grad()
def take(model: Model, store: Mapping[str, Tensor]) -> float:
    """Give a model what a store holds for it; the share of its numbers that it got."""
    own, kernels, taken = model.state_dict(), kernels_of(model), 0
    for name, tensor in own.items():
        found = store.get(name)
        if found is not None and name in kernels:
            found = middle(found, tensor.shape[-1])
        if found is not None and found.shape == tensor.shape:
            tensor.copy_(found)
            taken += tensor.numel()
    return taken / max(1, sum(tensor.numel() for tensor in own.values()))


def kept_by(model: Model, store: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A store with what a model has changed; of large kernels only the middle that it has."""
    kernels = kernels_of(model)
    found = {name: tensor.clone() for name, tensor in store.items()}
    for name, tensor in model.state_dict().items():
        if name not in kernels:
            found[name] = tensor.detach().clone().contiguous()
            continue
        whole = found.get(name)
        if whole is None or whole.shape[0] != tensor.shape[0]:
            whole = torch.zeros(tensor.shape[0], LARGEST)
        start = (LARGEST - tensor.shape[-1]) // 2
        whole[:, start : start + tensor.shape[-1]] = tensor
        found[name] = whole
    return found


def kernels_of(model: Model) -> set[str]:
    """Names of kernels that are the middle of a larger one."""
    return {
        f"{name}.weight" for name, part in model.named_modules() if isinstance(part, LightConvOp)
    }


def middle(whole: Tensor, taps: int) -> Tensor:
    """The central taps of the largest kernel."""
    start = (whole.shape[-1] - taps) // 2
    return whole[:, start : start + taps]
