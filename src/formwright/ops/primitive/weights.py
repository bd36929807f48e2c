"""Primitives with weights: each lane has its own.

b batch, l lane, n token, w channel, o output channel
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch.graph.straightline import Step
from formwright.ops.base import Builder, Context
from formwright.ops.conv.window import depthwise, neighbourhood


class Scale(nn.Module):
    """Times a learned number per channel; one at first."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(step.weight))

    def forward(self, x: Float[Tensor, "b _ n w"], ctx: Context) -> Float[Tensor, "b l n w"]:
        return x * self.weight


class Shift(nn.Module):
    """Plus a learned number per channel; zero at first."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(step.weight))

    def forward(self, x: Float[Tensor, "b _ n w"], ctx: Context) -> Float[Tensor, "b l n w"]:
        return x + self.weight


class Dense(nn.Module):
    """A dense map of each token. The map is torch's own, so that it is initialised as all are."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.lanes = step.result.lanes
        self.map = nn.Linear(step.weight[1], step.weight[0], bias=False)

    def forward(self, x: Float[Tensor, "b _ n w"], ctx: Context) -> Float[Tensor, "b l n o"]:
        if x.shape[1] == 1:  # all lanes read the same: one product for all of them
            x = self.map(x.squeeze(1)).unflatten(-1, (self.lanes, -1))
            return x.transpose(1, 2)
        weight = self.map.weight.unflatten(0, (self.lanes, -1))
        return torch.einsum("blnw,low->blno", x, weight)


class Conv(nn.Module):
    """A convolution over tokens; lanes with inputs of their own are groups."""

    def __init__(self, step: Step, shared: bool, causal: bool, builder: Builder) -> None:
        super().__init__()
        self.lanes, self.kernel, self.causal = step.result.lanes, step.number, causal
        self.groups, self.slot = 1 if shared else self.lanes, builder.slot()
        self.weight = nn.Parameter(torch.empty(step.weight))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Float[Tensor, "b _ n w"], ctx: Context) -> Float[Tensor, "b l n o"]:
        x = neighbourhood(_flat(x), self.kernel, self.causal, self.slot, ctx)
        x = F.conv1d(x.transpose(1, 2), self.weight, groups=self.groups)
        return x.unflatten(1, (self.lanes, -1)).transpose(2, 3)


class Depthwise(nn.Module):
    """One kernel per channel, from the oldest token to the newest.

    As in Primer the token itself weighs 0.5 at first and the others share 0.5 (so that a kernel
    of three sums to 0.83, not to one).
    """

    def __init__(self, step: Step, causal: bool, builder: Builder) -> None:
        super().__init__()
        self.lanes, self.kernel, self.causal = step.result.lanes, step.number, causal
        self.slot = builder.slot()
        self.weight = nn.Parameter(torch.full(step.weight, 0.5 / self.kernel))
        nn.init.constant_(self.weight[:, -1 if causal else self.kernel // 2], 0.5)

    def forward(self, x: Float[Tensor, "b l n w"], ctx: Context) -> Float[Tensor, "b l n w"]:
        x = neighbourhood(_flat(x), self.kernel, self.causal, self.slot, ctx)
        x = depthwise(x, self.weight).contiguous()  # channels together, as attention wants them
        return x.unflatten(-1, (self.lanes, -1)).transpose(1, 2)


def _flat(x: Tensor) -> Tensor:
    """(b, l, n, w) to (b, n, l w)."""
    return x.transpose(1, 2).flatten(2)
