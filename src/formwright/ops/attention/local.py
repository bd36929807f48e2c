"""Local attention as a layer; the computation is in ``kernels/local.py``."""

from torch import Tensor

from formwright.arch.mechanism import Local
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import local_attention
from formwright.ops.base import Context, operator


@operator(Local)
class LocalOp(MechanismOp):
    """Blocks that do not overlap."""

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
