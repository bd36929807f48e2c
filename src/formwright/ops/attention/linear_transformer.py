"""The Linear Transformer as a layer; computed in ``kernels/linear.py``."""

from torch import Tensor

from formwright.arch.mechanism import LinearTransformer
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import linear_attention
from formwright.ops.base import Context, operator


@operator(LinearTransformer)
class LinearTransformerOp(MechanismOp):
    """Features elu(x) + 1, sums swapped."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        return linear_attention(q, k, v, mask=self.real_keys(sight), causal=sight.causal)
