"""A supernet whose stream is narrower: the same open places, with slices of the large weights.

The width of the stream touches every tensor, so it is not a matter of single operators: for each
width there is a whole model without weights (on torch's meta device), made when it is first asked
for and run on views of the large one's. Everything in it, gates, sizes, memory, taking members out,
is as in any supernet.
"""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn
from torch.func import functional_call

from formwright.arch.architecture import Architecture
from formwright.arch.site import Site
from formwright.model import Model
from formwright.ops.base import Builder
from formwright.supernet.slicing import Slices, remember

Found = TypeVar("Found")


def remember_frame(model: Model) -> None:
    """Let entrance, positions and head know what they were built from, as layers do."""
    backbone, place = model.arch.backbone, Site(width=model.arch.backbone.width)
    remember(model.embedding, backbone.embedding, place)
    if model.absolute is not None and backbone.position is not None:
        remember(model.absolute, backbone.position, place)
    remember(model.head, model.frame.head, place.at(model.arch.out_width))


class Narrow(nn.Module):
    """A model that is lent its weights for as long as it is used.

    Args:
        large: Whose weights they are slices of; slots of memory and gates are the same.
        arch: The supernet's architecture in this width.
        builder: As that of the large one.
    """

    def __init__(self, large: Model, arch: Architecture, builder: Builder) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            self.model = Model(arch, builder)
        remember_frame(self.model)
        self.slices = Slices(large, self.model)

    def lent(self, large: Model, use: Callable[[Model], Found]) -> Found:
        """What ``use`` makes of the narrow model."""
        if self.training != large.training:
            self.train(large.training)
        weights = {f"model.{name}": tensor for name, tensor in self.slices(large).items()}
        found: Found = functional_call(self, weights, (use,), tie_weights=False)
        return found

    def forward(self, use: Callable[[Model], Found]) -> Found:
        """Called with the weights in place."""
        return use(self.model)
