"""The Linear Transformer as a layer; computed in ``kernels/linear.py``."""

from torch import Tensor

from formwright.arch.attention import Attention
from formwright.arch.mechanism import LinearTransformer
from formwright.arch.site import Site
from formwright.ops.attention.base import MechanismOp, Sight
from formwright.ops.attention.kernels import linear_attention
from formwright.ops.base import Builder, Context, operator


@operator(LinearTransformer)
class LinearTransformerOp(MechanismOp):
    """Features elu(x) + 1, sums swapped."""

    def __init__(
        self, node: LinearTransformer, attention: Attention, site: Site, builder: Builder
    ) -> None:
        super().__init__()
        self.sees_padding = node.lra

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        mask = None if self.sees_padding else sight.keys
        return linear_attention(q, k, v, mask=mask, causal=sight.causal)
