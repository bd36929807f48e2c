"""The feed-forward sub-layer: up, activation (perhaps gated), down.

Papers: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; gated forms: Shazeer 2020,
https://arxiv.org/abs/2002.05202
"""

from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch.layer import FeedForward
from formwright.arch.site import Site
from formwright.ops.base import Builder, Context, Operator, operator
from formwright.ops.feedforward.activation import ACTIVATIONS


@operator(FeedForward)
class FeedForwardOp(Operator):
    """down(activation(up(x))), or down(activation(gate(x)) * up(x))."""

    def __init__(self, node: FeedForward, site: Site, builder: Builder) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[node.activation]
        self.up = nn.Linear(site.width, node.inner, bias=node.bias)
        self.gate = nn.Linear(site.width, node.inner, bias=node.bias) if node.gate else None
        self.down = nn.Linear(node.inner, site.width, bias=node.has_out_bias)
        self.dropout = nn.Dropout(builder.dropout) if builder.dropout else None

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        up = self.up(x)
        hidden = self.activation(up) if self.gate is None else self.activation(self.gate(x)) * up
        return self.down(hidden if self.dropout is None else self.dropout(hidden))
