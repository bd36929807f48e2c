"""What a mechanism looks like to the attention around it."""

from dataclasses import dataclass

from torch import Tensor, nn

from formwright.ops.base import Context


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


class MechanismOp(nn.Module):
    """From queries, keys and values of all heads to one result per query."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        """q (b, h, n, d), k (b, g, t, d), v (b, g, t, e) give (b, h, n, e)."""
        raise NotImplementedError
