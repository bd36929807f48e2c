"""What a mechanism looks like to the attention around it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Attention, Site
from formwright.ops.base import Builder, Context


@dataclass
class Sight:
    """What queries may see, beside the tensors themselves.

    b batch, h head, n query, t key
    """

    bias: Tensor | None = None  # broadcasts to (b, h, n, t), already scaled
    keys: Tensor | None = None  # (b, t) True where a key is real
    queries: Tensor | None = None  # (b, n) True where a query is real
    causal: bool = False
    reach: int | None = None  # farthest distance a query sees back
    dropout: float = 0.0
    x: Tensor | None = None  # (b, n, w) the attention's own input

    @property
    def told(self) -> dict[str, Any]:
        """What every kernel is told: which keys are real, and whether the future is hidden."""
        return {"mask": self.keys, "causal": self.causal}


class MechanismOp(nn.Module):
    """From queries, keys and values of all heads to one result per query."""

    def __init__(self, node: Any, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__()
        self.node, self.heads, self.groups = node, attention.heads, attention.groups

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        """q (b, h, n, d), k (b, g, t, d), v (b, g, t, e) give (b, h, n, e).

        All but softmax get as many keys as queries, in as many heads. Without a comparison
        (``query_key=none``) q and k are None.
        """
        raise NotImplementedError

    def real_keys(self, sight: Sight) -> Tensor | None:
        """Which keys are real; None where padding is seen, as the Long Range Arena code has it."""
        return None if self.node.lra else sight.keys

    def joined(self, mixed: Tensor, length: int) -> Tensor:
        """The heads side by side, (b, n, h e)."""
        return mixed.transpose(1, 2).flatten(2)


def drawn(draw: Callable[[torch.Generator], Tensor]) -> Tensor:
    """Fixed random numbers of a layer, on the CPU, from torch's own random state.

    They are buffers, so they are saved with the weights and the same seed draws the same.
    """
    with torch.device("cpu"):
        generator = torch.Generator()
        generator.manual_seed(int(torch.randint(2**62, (1,))))
        return draw(generator)
