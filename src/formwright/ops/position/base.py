"""What positions look like to the rest of the model.

A position operator stands once per stack and holds what its layers share. Every self-attention
owns a ``part`` of it, which turns queries and keys and may add a bias to the scores.

b batch, h head, n query, t key, d channel of a head
"""

from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Attention, Node, Site
from formwright.ops.base import Context


class PositionOp(nn.Module):
    """Base: positions that do nothing."""

    remembers_inputs = False  # Transformer-XL projects what it remembers anew
    part_class: type["PositionPart"] | None = None  # what one self-attention needs of its own

    def __init__(self, node: Node, site: Site, size: int, attention: Attention | None) -> None:
        """``size``: channels of the embedding; ``attention``: any of those that share."""
        super().__init__()

    def embed(self, x: Tensor, offset: int) -> Tensor:
        """Add positions to token vectors (b, n, size) that stand at ``offset`` and on."""
        return x

    @classmethod
    def part(cls, node: Node, attention: Attention, site: Site) -> "PositionPart | None":
        """What one self-attention needs of its own, if anything."""
        return None if cls.part_class is None else cls.part_class(node, attention, site)


class PositionPart(nn.Module):
    """What positions do inside one self-attention."""

    turns = False  # whether new queries and keys are changed before they are remembered

    def __init__(self, node: Any, attention: Attention, site: Site) -> None:
        super().__init__()
        self.node, self.heads, self.causal = node, attention.heads, site.causal

    def forward(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries and keys as they are to be compared, and a bias for the scaled scores.

        q (b, h, n, d), k (b, g, t, d); bias broadcasts to (b, h, n, t).
        """
        raise NotImplementedError


def distances(n: int, t: int, device: torch.device) -> Tensor:
    """How far key j lies before query i, (n, t); the queries are the last n of the t keys."""
    queries = torch.arange(t - n, t, device=device)
    return queries[:, None] - torch.arange(t, device=device)[None, :]
