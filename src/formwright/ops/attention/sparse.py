"""The Sparse Transformer's fixed pattern as a layer; computed in ``kernels/sparse.py``."""

from torch import Tensor

from formwright.arch.mechanism import Sparse
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import sparse_attention, sparse_cls_attention
from formwright.ops.base import Context, operator


@operator(Sparse)
class SparseOp(MechanismOp):
    """Own block and summary columns, never ahead."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        attend = sparse_cls_attention if self.node.lra else sparse_attention
        return attend(
            q,
            k,
            v,
            mask=sight.keys,
            causal=sight.causal,
            block=self.node.block,
            summary=self.node.summary,
            first_column=self.node.lra,
        )
