"""What all convolutions share: the neighbourhood of every token, and the depthwise product.

A causal convolution sees the token and those before it; a centred one as many on both sides.
Padding is set to zero first, so that it never leaks into real tokens.
"""

import torch.nn.functional as F
from torch import Tensor

from formwright.errors import SpecError
from formwright.ops.base import Context, masked


def neighbourhood(x: Tensor, kernel: int, causal: bool, slot: int, ctx: Context) -> Tensor:
    """The stream with the tokens in front (and behind) that ``kernel`` taps need.

    Returns (b, n + kernel - 1, width); output t of a plain convolution over it belongs to
    token t.
    """
    x = masked(x, ctx)
    if ctx.past is not None:
        if not causal:
            raise SpecError("A convolution that looks ahead cannot read a text piece by piece.")
        return ctx.past.window(slot, x, kernel - 1)
    before = kernel - 1 if causal else kernel // 2
    return F.pad(x, (0, 0, before, kernel - 1 - before))


def depthwise(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """One kernel per channel: x (b, n + k - 1, w), weight (w, k), gives (b, n, w)."""
    x = F.conv1d(x.transpose(1, 2), weight.unsqueeze(1), bias, groups=weight.shape[0])
    return x.transpose(1, 2)
