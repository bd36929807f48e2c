"""Functions of each number."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from formwright.arch.layer import Activation
from formwright.arch.site import Site
from formwright.ops.base import Builder, Context, Operator, operator


def squared_relu(x: Tensor) -> Tensor:
    """relu(x)^2. Paper: Primer, https://arxiv.org/abs/2109.08668"""
    x = F.relu(x)
    return x * x


def nothing(x: Tensor) -> Tensor:
    """The number itself."""
    return x


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "squared_relu": squared_relu,
    "leaky_relu": F.leaky_relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "none": nothing,
}


@operator(Activation)
class ActivationOp(Operator):
    """One function, on every number of the stream."""

    def __init__(self, node: Activation, site: Site, builder: Builder) -> None:
        super().__init__()
        self.function = ACTIVATIONS[node.function]

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        return self.function(x)
