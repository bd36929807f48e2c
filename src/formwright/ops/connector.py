"""Connector units: parts beside each other, on top of each other, or some of both.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808.
Differs from the paper: dropout, if any, falls on what enters the stream, as in a residual branch.
"""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch import Connected, Site
from formwright.ops.base import Builder, Context, Operator, operator

Weight = float | Tensor


@operator(Connected)
class ConnectedOp(Operator):
    """A chain of connectors from (X, 0), closed by X + R."""

    def __init__(self, node: Connected, site: Site, builder: Builder) -> None:
        super().__init__()
        node.out_width(site)
        self.weights = node.weights
        self.layers = nn.ModuleList(builder.build(layer, site) for layer in node.layers)
        self.dropout = nn.Dropout(builder.dropout)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        return self.run(x, ctx, self.weights)

    def run(
        self, x: Float[Tensor, "b n w"], ctx: Context, weights: Sequence[Weight]
    ) -> Float[Tensor, "b n w"]:
        """The same with other weights, also learned ones."""
        rest: Tensor | None = None  # R, while it is not zero
        group: list[nn.Module] = []  # parts that read the same X
        last = len(self.layers) - 1
        for number, (layer, weight) in enumerate(zip(self.layers, weights, strict=True)):
            group.append(layer)
            if isinstance(weight, float) and weight == 0.0 and number != last:
                continue
            found = self.beside(group, x, ctx)
            found = found if rest is None else rest + found
            group = []
            if isinstance(weight, float) and weight in (0.0, 1.0):  # exactly the plain network
                x, rest = (x, found) if weight == 0 else (x + self.dropout(found), None)
            else:
                x, rest = x + weight * self.dropout(found), (1 - weight) * found
        return x if rest is None else x + self.dropout(rest)

    def beside(
        self, parts: Sequence[nn.Module], x: Float[Tensor, "b n w"], ctx: Context
    ) -> Float[Tensor, "b n w"]:
        """The sum of parts that read the same input."""
        found: Tensor = parts[0](x, ctx)
        for part in parts[1:]:
            found = found + part(x, ctx)
        return found
