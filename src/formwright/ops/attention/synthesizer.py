"""The factorised random Synthesizer as a layer; computed in ``kernels/synthesizer.py``."""

import torch
from torch import Tensor, nn

from formwright.arch.attention import Attention
from formwright.arch.mechanism import Synthesizer
from formwright.arch.site import Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import synthesizer_attention
from formwright.ops.base import Builder, Context, operator


@operator(Synthesizer)
class SynthesizerOp(MechanismOp):
    """Learned scores per pair of positions, up to the longest input."""

    def __init__(
        self, node: Synthesizer, attention: Attention, site: Site, builder: Builder
    ) -> None:
        super().__init__(node, attention, site, builder)
        self.sees_padding = node.lra and attention.query_key == "none"
        longest = site.longest or 0
        self.left = nn.Parameter(torch.empty(attention.heads, longest, node.rank))
        self.right = nn.Parameter(torch.empty(attention.heads, node.rank, longest))
        for table in (self.left, self.right):
            nn.init.xavier_uniform_(table)

    def forward(
        self, q: Tensor | None, k: Tensor | None, v: Tensor, sight: Sight, ctx: Context
    ) -> Tensor:
        mask = None if self.sees_padding else sight.keys
        return synthesizer_attention(
            q, k, v, left=self.left, right=self.right, mask=mask, causal=sight.causal
        )
