"""Programs of primitives, compiled once to straight-line torch code.

Paper: "Primer", So et al. 2021, https://arxiv.org/abs/2109.08668
Differs from the paper: see ``arch.program``. Branches are computed at once, as lanes of one
tensor. Attention, softmax, norms and maps with a bias are recognised and given to torch's own
kernels (``arch.graph.fuse``), so that a program that is written like a Transformer runs like one.
Every other primitive is a torch call of its own; there is no dropout inside.

A text can be read piece by piece unless the program multiplies scores with scores or takes
products over all tokens; such a program refuses.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, fx, nn

from formwright.arch import Program, Site
from formwright.arch.graph.instruction import (
    CONVOLUTIONS,
    DEPTHWISE,
    LEARNED,
    REDUCTIONS,
    WITH_CONSTANT,
)
from formwright.arch.graph.straightline import Step, StraightLine
from formwright.errors import SpecError
from formwright.ops.base import Builder, Context, Operator, operator
from formwright.ops.primitive import functions
from formwright.ops.primitive.weights import Conv, Dense, Depthwise, Scale, Shift


@operator(Program)
class ProgramOp(Operator):
    """Runs the compiled program on the stream. ``code.code`` is the Python it became."""

    def __init__(self, node: Program, site: Site, builder: Builder) -> None:
        super().__init__()
        line = node.compiled(site)
        self.reads_pieces = line.reads_pieces
        self.code = _Compiler(line, site.causal, builder).compiled()

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        if ctx.past is not None and not self.reads_pieces:
            raise SpecError(
                "This program multiplies scores with scores or takes products over all tokens; "
                "it cannot read a text piece by piece. Pass the whole text, without past."
            )
        return self.code(x, ctx)


def weight_name(path: tuple[int, ...]) -> str:
    """The module that holds the weights of an instruction, by its places through the calls."""
    return "at_" + "_".join(map(str, path))


class _Compiler:
    """Turns each step into one node of a torch.fx graph."""

    def __init__(self, line: StraightLine, causal: bool, builder: Builder) -> None:
        self.line, self.causal, self.builder = line, causal, builder
        self.graph, self.modules = fx.Graph(), nn.Module()
        self.x = self.graph.placeholder("x")
        self.ctx = self.graph.placeholder("ctx")
        self.values: list[fx.Node] = []
        hides = any(step.op in ("hide", "softmax", "attend") for step in line.steps)
        self.seen = self.call(functions.visible_keys, self.x, self.ctx, causal) if hides else None

    def compiled(self) -> fx.GraphModule:
        """The whole program as a module."""
        for step in self.line.steps:
            self.values.append(self.emitted(step))
        self.graph.output(self.call(torch.squeeze, self.values[-1], 1))
        self.graph.lint()
        return fx.GraphModule(self.modules, self.graph, class_name="CompiledProgram")

    def call(self, function: Any, *arguments: Any) -> fx.Node:
        return self.graph.call_function(function, arguments)

    def emitted(self, step: Step) -> fx.Node:
        """The node of a step."""
        inputs = [self.values[i] for i in step.inputs]
        if step.op == "stream":
            return self.call(torch.unsqueeze, self.x, 1)  # one lane
        if step.op in LEARNED:
            return self.graph.call_module(self.module(step), (inputs[0], self.ctx))
        if step.op in ("norm", "dense", "attend", "softmax"):
            return self.fused(step, *inputs)
        if step.op in functions.PLAIN:
            constant = (step.constant,) if step.op in WITH_CONSTANT else ()
            return self.call(functions.PLAIN[step.op], *inputs, *constant)
        if step.op == "hide":
            return self.call(functions.hide, *inputs, self.seen, step.constant)
        if step.op in REDUCTIONS or step.op.startswith("cum_"):
            return self.gathered(step, inputs[0])
        if step.op.startswith("mat_mul"):
            return self.product(step, *inputs)
        return self.shaped(step, inputs[0])

    def weights(self, step: Step) -> nn.Module:
        """The module of a step that learns."""
        if step.op == "conv1":
            return Dense(step)
        if step.op in CONVOLUTIONS:
            shared = self.line.steps[step.inputs[0]].result.lanes == 1
            return Conv(step, shared, self.causal, self.builder)
        if step.op in DEPTHWISE:
            return Depthwise(step, self.causal, self.builder)
        return Scale(step) if step.op == "scale" else Shift(step)

    def module(self, step: Step) -> str:
        """The name of a new module with the weights of a step."""
        name = weight_name(step.path)
        self.modules.add_module(name, self.weights(step))
        return name

    def fused(self, step: Step, *inputs: fx.Node) -> fx.Node:
        """A pattern, with the weights of the steps it stands for."""
        if step.op == "attend":
            return self.attended(step, *inputs)
        if step.op == "softmax":
            return self.call(functions.softmax, *inputs, self.seen)
        suffixes = {"conv1": "map.weight"}
        names = [f"{self.module(p)}.{suffixes.get(p.op, 'weight')}" for p in step.parts]
        weights = [self.graph.get_attr(name) for name in names]
        if step.op == "dense":
            return self.call(functions.dense, *inputs, *weights)
        return self.call(functions.norm, *inputs, step.constant, *weights)

    def attended(self, step: Step, query: fx.Node, key: fx.Node, value: fx.Node) -> fx.Node:
        """Attention in one call; keys and values are remembered as in its parts."""
        key = self.call(functions.remembered, key, self.ctx, self.builder.slot())
        value = self.call(functions.remembered, value, self.ctx, self.builder.slot())
        plain = self.call(functions.plainly_causal, self.x, self.ctx, self.causal)
        how = (self.seen, plain, step.number, step.constant)
        return self.call(functions.attend, query, key, value, *how)

    def gathered(self, step: Step, value: fx.Node) -> fx.Node:
        """Reductions and running totals."""
        over_keys = self.line.kinds(step) == ("scores",)
        if step.op.startswith("cum_"):
            if over_keys:
                running = torch.cumsum if step.op == "cum_sum" else torch.cumprod
                return self.call(running, value, -1)
            return self.call(functions.cumulate, value, self.ctx, step.op, self.builder.slot())
        if not over_keys:
            return self.call(functions.reduce_channels, value, step.op)
        if step.op == "reduce_mean":
            return self.call(functions.mean_keys, value, self.seen)
        return self.call(functions.reduce_keys, value, step.op)

    def product(self, step: Step, first: fx.Node, second: fx.Node) -> fx.Node:
        """Matrix products; rows that queries look at are remembered."""
        transposed = step.op == "mat_mul_transposed"
        if self.line.kinds(step) == ("scores", "scores"):
            return self.call(functions.overlap if transposed else torch.matmul, first, second)
        second = self.call(functions.remembered, second, self.ctx, self.builder.slot())
        if transposed:
            return self.call(functions.compare, first, second, step.result.width)
        return self.call(functions.mix, first, second)

    def shaped(self, step: Step, value: fx.Node) -> fx.Node:
        """Steps that only move numbers."""
        if step.op == "turn":
            return self.call(functions.turn, value)
        if step.op in ("fit", "spread"):
            return self.call(getattr(functions, step.op), value, step.number)
        function = getattr(functions, f"{step.op}_{step.result.kind}")  # join, repeat
        return self.call(function, value, step.number)
