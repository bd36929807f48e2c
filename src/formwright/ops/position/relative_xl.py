"""Transformer-XL's relative positions. Paper: Dai et al. 2019, https://arxiv.org/abs/1901.02860

score(i, j) = ((q_i + u) . k_j + (q_i + v) . R_{i-j}) / sqrt(d), with R a projection of sinusoids
at the distance i - j, and u, v two learned vectors per head.

Differs from the paper: the remembered inputs are kept after a norm that stands before the
attention, so its weights get no gradient through the memory.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from formwright.arch import Attention, RelativeXL, Site
from formwright.ops.base import Context, operator
from formwright.ops.position.absolute import sinusoids
from formwright.ops.position.base import PositionOp, PositionPart


class RelativeXLPart(PositionPart):
    """The projection of distances, and the two vectors where each layer has its own."""

    def __init__(self, node: RelativeXL, attention: Attention, site: Site) -> None:
        super().__init__(node, attention, site)
        self.width, self.shared = site.width, node.shared_bias
        key = attention.key_size(site.width)
        self.project = nn.Linear(site.width, self.heads * key, bias=False)
        if not self.shared:
            self.content = nn.Parameter(torch.zeros(self.heads, key))
            self.distance = nn.Parameter(torch.zeros(self.heads, key))

    def forward(self, q: Tensor, k: Tensor, ctx: Context) -> tuple[Tensor, Tensor, Tensor | None]:
        n, t = q.shape[-2], k.shape[-2]
        biases: Any = ctx.position if self.shared else self
        content, distance = biases.content, biases.distance  # (h, d)
        # Distances t-1 .. 0, and in an encoder on to -(n-1), so that the shift can read them.
        last = 0 if self.causal else 1 - n
        most = None if ctx.past is None else ctx.past.clamp
        waves = ctx.table(("xl", self.width, last, t, most), lambda: self._waves(t, last, most, q))
        r = self.project(waves).unflatten(-1, (self.heads, -1)).transpose(0, 1)  # (h, r, d)
        scores = torch.matmul(q + distance[:, None], r.transpose(-1, -2))  # (b, h, n, r)
        bias = relative_shift(scores, t) * q.shape[-1] ** -0.5
        return q + content[:, None], k, bias

    def _waves(self, t: int, last: int, most: int | None, q: Tensor) -> Tensor:
        """Sinusoids at the distances t-1 .. last, none of them beyond the most."""
        places = torch.arange(t - 1, last - 1, -1, device=q.device)
        if most is not None:
            places = places.clamp(max=most)
        return sinusoids(places, self.width).to(q.dtype)


@operator(RelativeXL)
class RelativeXLOp(PositionOp):
    """The two vectors per head, where all layers share them."""

    remembers_inputs = True
    part_class = RelativeXLPart

    def __init__(
        self, node: RelativeXL, site: Site, size: int, attention: Attention | None
    ) -> None:
        super().__init__(node, site, size, attention)
        if node.shared_bias:
            heads = attention.heads if attention else 1
            key = attention.key_size(site.width) if attention else site.width
            self.content = nn.Parameter(torch.zeros(heads, key))  # u
            self.distance = nn.Parameter(torch.zeros(heads, key))  # v


def relative_shift(scores: Tensor, keys: int) -> Tensor:
    """Turn "by distance" into "by key": out[i, j] = scores[i, j + n - 1 - i].

    Column c of ``scores`` (..., n, r) is distance keys-1-c. Where r == keys (causal) the columns
    that would lie beyond the last belong to later keys, which the causal mask hides.
    """
    n = scores.shape[-2]
    room = keys + n - 1  # columns of a row, so that row i can be read from column n-1-i on
    if torch.compiler.is_exporting():
        room += 1  # one token needs one more than this; asking for the size would fix it
    elif n == 1:
        return scores
    if room != scores.shape[-1]:
        scores = F.pad(scores, (0, room - scores.shape[-1]))
    # Reading them so is a diagonal walk through memory, with rows of r - 1.
    r = scores.shape[-1]
    return scores.flatten(-2)[..., n - 1 : n - 1 + n * (r - 1)].unflatten(-1, (n, r - 1))[
        ..., :keys
    ]
