"""Cells of the Evolved Transformer, as straight-line torch code.

Paper: https://arxiv.org/abs/1901.11117. The graph of blocks is written down once, when the cell
is built, as a ``torch.fx`` graph; what runs is the code torch makes of it, without a look at the
blocks. Dropout follows every layer but identity. Differs from the paper: see the node.
"""

import operator as arithmetic
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, fx, nn

from formwright.arch import Activation, Identity, Site
from formwright.arch.graph.cell import Cell, CellPlan, PlacedBlock, PlacedBranch
from formwright.ops.base import Builder, Context, Operator, operator


@operator(Cell)
class CellOp(Operator):
    """All blocks of a cell; ``body`` holds their layers as norm0, block1_left, ..., resize."""

    def __init__(self, node: Cell, site: Site, builder: Builder) -> None:
        super().__init__()
        self.body = _Writer(node, site, builder).write()

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        return self.body(x, ctx)


class _Writer:
    """Writes a cell as a graph; layers are called as ``layer(x, ctx)``, like anywhere else."""

    def __init__(self, node: Cell, site: Site, builder: Builder) -> None:
        self.node, self.site, self.builder = node, site, builder
        self.plan: CellPlan = node.plan(site)
        self.parts: dict[str, nn.Module] = {}
        self.graph = fx.Graph()
        self.states = [self.graph.placeholder("x")]
        self.ctx = self.graph.placeholder("ctx")
        self.normed: dict[int, fx.Node] = {}

    def write(self) -> fx.GraphModule:
        for number, block in enumerate(self.plan.blocks, start=1):
            self.states.append(self.block(number, block))
        total, *others = (
            self.filled(self.states[end], self.plan.widths[end], self.plan.width, 0.0)
            for end in self.plan.ends
        )
        for other in others:
            total = self.graph.call_function(arithmetic.add, (total, other))
        if self.plan.resized is not None:
            resize = self.builder.build(self.plan.resized, self.site.at(self.plan.width))
            total = self.called("resize", resize, total, self.ctx)
        self.graph.output(total)
        return fx.GraphModule(self.parts, self.graph, class_name="CellBody")

    def block(self, number: int, block: PlacedBlock) -> fx.Node:
        names = ("left", "right") if len(block.branches) == 2 else ("alone",)
        results = [
            self.branch(f"block{number}_{name}", placed)
            for name, placed in zip(names, block.branches, strict=True)
        ]
        if len(results) == 1:
            return results[0]
        if block.combine == "concat":
            return self.graph.call_function(torch.cat, (results,), {"dim": -1})
        neutral, join = _JOIN[block.combine]
        sides = tuple(
            self.filled(result, placed.width, block.width, neutral)
            for result, placed in zip(results, block.branches, strict=True)
        )
        return self.graph.call_function(join, sides)

    def branch(self, name: str, placed: PlacedBranch) -> fx.Node:
        branch = placed.branch
        x = self.norm_of(branch.input) if branch.norm else self.states[branch.input]
        plain = isinstance(placed.layer, Identity)
        if not plain:
            x = self.called(name, self.builder.build(placed.layer, placed.site), x, self.ctx)
        if branch.activation != "none":
            function = Activation(branch.activation)
            activation = self.builder.build(function, self.site.at(placed.width))
            x = self.called(f"{name}_{branch.activation}", activation, x, self.ctx)
        if self.builder.dropout and not plain:
            x = self.called(f"{name}_dropout", nn.Dropout(self.builder.dropout), x)
        return x

    def norm_of(self, state: int) -> fx.Node:
        """The normalised state, made by whoever reads it first."""
        if state not in self.normed:
            norm = self.builder.build(self.node.norm, self.site.at(self.plan.widths[state]))
            self.normed[state] = self.called(f"norm{state}", norm, self.states[state], self.ctx)
        return self.normed[state]

    def called(self, name: str, module: nn.Module, *inputs: fx.Node) -> fx.Node:
        self.parts[name] = module
        return self.graph.call_module(name, inputs)

    def filled(self, x: fx.Node, width: int, wanted: int, value: float) -> fx.Node:
        """Channels of ``value`` on the right, up to the width that is wanted."""
        if width == wanted:
            return x
        return self.graph.call_function(F.pad, (x, (0, wanted - width)), {"value": value})


_JOIN: dict[str, tuple[float, Any]] = {
    "add": (0.0, arithmetic.add),
    "multiply": (1.0, arithmetic.mul),
}
