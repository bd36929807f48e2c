"""Layers in a row, around a branch, and side by side."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from formwright.arch import Identity, Parallel, Residual, Site, Stack
from formwright.ops.base import Builder, Context, Operator, operator


@operator(Identity)
class IdentityOp(Operator):
    """Passes its input on."""

    def __init__(self, node: Identity, site: Site, builder: Builder) -> None:
        super().__init__()

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        return x


@operator(Stack)
class StackOp(Operator):
    """Layers one after the other."""

    def __init__(self, node: Stack, site: Site, builder: Builder) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            builder.build(layer, place) for layer, place in node.placed(site)
        )

    def forward(
        self, x: Float[Tensor, "b n w"], ctx: Context, start: int = 0, stop: int | None = None
    ) -> Float[Tensor, "b n out"]:
        for layer in list(self.layers)[start:stop]:
            x = layer(x, ctx)
        return x


@operator(Residual)
class ResidualOp(Operator):
    """A branch around a layer, with the norm before, after or outside."""

    def __init__(self, node: Residual, site: Site, builder: Builder) -> None:
        super().__init__()
        self.place = node.place
        self.inner = builder.build(node.inner, site)
        inside = node.inner.out_width(site)
        self.missing = site.width - inside  # channels to fill up with zeros
        norm_site = site.at(inside) if node.place == "after" else site
        self.norm = builder.build(node.norm, norm_site) if node.norm is not None else None
        self.dropout = nn.Dropout(builder.dropout) if builder.dropout else None

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        branch = self.norm(x, ctx) if self.norm is not None and self.place == "pre" else x
        branch = self.inner(branch, ctx)
        if self.norm is not None and self.place == "after":
            branch = self.norm(branch, ctx)
        if self.dropout is not None:
            branch = self.dropout(branch)
        if self.missing:
            branch = F.pad(branch, (0, self.missing))
        x = x + branch
        return self.norm(x, ctx) if self.norm is not None and self.place == "post" else x


@operator(Parallel)
class ParallelOp(Operator):
    """Layers side by side, joined into one stream."""

    def __init__(self, node: Parallel, site: Site, builder: Builder) -> None:
        super().__init__()
        self.join = node.join
        self.branches = nn.ModuleList(builder.build(branch, site) for branch in node.branches)
        self.width = node.out_width(site)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        results = [branch(x, ctx) for branch in self.branches]
        return join(results, self.join, self.width)


def join(results: list[Tensor], how: str, width: int) -> Tensor:
    """Streams of perhaps different widths as one (Evolved Transformer's padding rules)."""
    if how == "concat":
        return torch.cat(results, dim=-1)
    neutral = 1.0 if how == "multiply" else 0.0
    total = filled(results[0], width, neutral)
    for result in results[1:]:
        part = filled(result, width, neutral)
        total = total * part if how == "multiply" else total + part
    return total / len(results) if how == "mean" else total


def filled(x: Tensor, width: int, value: float) -> Tensor:
    """``x`` with channels of ``value`` added on the right up to ``width``."""
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]), value=value)
