"""Local attention as a layer; the computation is in ``kernels/local.py``."""

from torch import Tensor

from formwright.arch.attention import Attention
from formwright.arch.mechanism import Local
from formwright.arch.site import Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import local_attention
from formwright.ops.base import Builder, Context, operator


@operator(Local)
class LocalOp(MechanismOp):
    """Blocks that do not overlap."""

    def __init__(self, node: Local, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__()
        self.node = node

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        return local_attention(
            q,
            k,
            v,
            mask=sight.keys,
            causal=sight.causal,
            block=self.node.block,
            visible_padding=self.node.lra,
        )
