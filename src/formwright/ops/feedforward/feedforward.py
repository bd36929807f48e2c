"""Maps that treat every token alike: functions of each number, dense maps, feed-forwards.

Papers: feed-forward, Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; gated forms, Shazeer
2020, https://arxiv.org/abs/2002.05202; GLU, Dauphin et al. 2017, https://arxiv.org/abs/1612.08083
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch import GLU, Activation, FeedForward, Linear, Site
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


@operator(Linear)
class LinearOp(Operator):
    """One dense map."""

    def __init__(self, node: Linear, site: Site, builder: Builder) -> None:
        super().__init__()
        self.map = nn.Linear(site.width, node.out, bias=node.bias)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        return self.map(x)


@operator(GLU)
class GLUOp(Operator):
    """One half of a dense map times the sigmoid of the other."""

    def __init__(self, node: GLU, site: Site, builder: Builder) -> None:
        super().__init__()
        self.map = nn.Linear(site.width, 2 * node.out_width(site), bias=node.bias)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        return F.glu(self.map(x), dim=-1)


@operator(FeedForward)
class FeedForwardOp(Operator):
    """down(activation(up(x))), or down(activation(gate(x)) * up(x))."""

    def __init__(self, node: FeedForward, site: Site, builder: Builder) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[node.activation]
        self.up = nn.Linear(site.width, node.inner, bias=node.bias)
        self.gate = nn.Linear(site.width, node.inner, bias=node.bias) if node.gate else None
        self.down = nn.Linear(node.inner, site.width, bias=node.has_out_bias)
        self.dropout = nn.Dropout(builder.dropout) if builder.dropout else None

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        up = self.up(x)
        hidden = self.activation(up) if self.gate is None else self.activation(self.gate(x)) * up
        return self.down(hidden if self.dropout is None else self.dropout(hidden))
