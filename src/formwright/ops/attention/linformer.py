"""Linformer as a layer; computed in ``kernels/linformer.py``."""

import torch
from torch import Tensor, nn

from formwright.arch.attention import Attention
from formwright.arch.mechanism import Linformer
from formwright.arch.site import Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import linformer_attention
from formwright.ops.base import Builder, Context, operator


@operator(Linformer)
class LinformerOp(MechanismOp):
    """Keys and values mixed along the length, up to the longest input."""

    def __init__(self, node: Linformer, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__(node, attention, site, builder)
        shape = (site.longest or 0, node.slots)
        self.keys = nn.Parameter(torch.empty(shape))
        self.values = None if node.shared else nn.Parameter(torch.empty(shape))
        for table in self.parameters():
            nn.init.xavier_uniform_(table)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        values, mask = self.keys if self.values is None else self.values, self.real_keys(sight)
        return linformer_attention(
            q, k, v, key_projection=self.keys, value_projection=values, mask=mask
        )
