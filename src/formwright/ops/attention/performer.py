"""Performer as a layer; computed in ``kernels/performer.py``.

Differs from the paper: random features are drawn once, when the layer is built, and saved with the
weights; they are not redrawn while training.
"""

from torch import Tensor

from formwright.arch.attention import Attention
from formwright.arch.mechanism import Performer
from formwright.arch.site import Site
from formwright.ops.attention.base import MechanismOp, Sight, drawn
from formwright.ops.attention.kernels import (
    orthogonal_features,
    performer_favor_attention,
    performer_relu_attention,
)
from formwright.ops.base import Builder, Context, operator


@operator(Performer)
class PerformerOp(MechanismOp):
    """ReLU features, or random ones that stand for the softmax."""

    projection: Tensor | None

    def __init__(self, node: Performer, attention: Attention, site: Site, builder: Builder) -> None:
        super().__init__(node, attention, site, builder)
        projection = None
        if node.kernel == "favor":
            key = attention.key_size(site.width)
            projection = drawn(lambda g: orthogonal_features(node.random_features, key, g))
        self.register_buffer("projection", projection)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, sight: Sight, ctx: Context) -> Tensor:
        mask = self.real_keys(sight)
        if self.projection is None:
            return performer_relu_attention(q, k, v, mask=mask, causal=sight.causal)
        features = self.projection.to(q.dtype)
        return performer_favor_attention(
            q, k, v, projection=features, mask=mask, causal=sight.causal
        )
