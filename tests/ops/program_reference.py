"""A second, slow reading of programs: instruction by instruction, branch by branch.

It shares nothing with the compiled form but the weights. Rows are (b, n, w) tensors, scores are
lists of maps (b, n, n); ``seen`` (b, n, n) says which keys a query may look at.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from formwright.arch import Instruction, Layer, Program, Site
from formwright.arch.graph.instruction import kernel_of
from formwright.ops import Builder
from formwright.ops.program import ProgramOp, weight_name

WIDTH = 16

UNARY = {
    "abs": lambda x: x.abs(),
    "abs_root": lambda x: x.abs() ** 0.5,
    "square": lambda x: x**2,
    "exp": lambda x: math.e**x,
    "log": lambda x: x.abs().log(),
    "recip": lambda x: 1 / x,
    "sign": lambda x: (x > 0).to(x.dtype) - (x < 0).to(x.dtype),
    "cos": torch.cos,
    "sin": torch.sin,
    "tanh": lambda x: 2 / (1 + torch.exp(-2 * x)) - 1,
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
}
BINARY = {
    "add": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "divide": lambda a, b: a / b,
    "multiply": lambda a, b: a * b,
}
REDUCE = {
    "reduce_mean": (0.0, lambda x, many: x.sum(-1, keepdim=True) / many),
    "reduce_sum": (0.0, lambda x, many: x.sum(-1, keepdim=True)),
    "reduce_min": (math.inf, lambda x, many: x.min(-1, keepdim=True).values),
    "reduce_max": (-math.inf, lambda x, many: x.max(-1, keepdim=True).values),
    "reduce_prod": (1.0, lambda x, many: x.prod(-1, keepdim=True)),
}


def built(layer: Layer, width: int = WIDTH, *, causal: bool = True, seed: int = 0) -> nn.Module:
    """A layer with weights that are all random, norms and shifts included, in float64."""
    torch.manual_seed(seed)
    module = Builder().build(layer, Site(width=width, causal=causal)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, 0.5)
    return module


def stream(length: int = 9, width: int = WIDTH) -> Tensor:
    return torch.randn(2, length, width, dtype=torch.float64)


def padding(length: int = 9) -> Tensor:
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[0, :2] = False
    mask[1, 6:] = False
    return mask


class Reference:
    """Reads a program with the weights of its compiled form."""

    def __init__(self, program: Program, module: ProgramOp, width: int, causal: bool) -> None:
        self.program, self.module, self.causal = program, module, causal
        self.unit = width // program.stream
        self.width = width

    def __call__(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        b, n, _ = x.shape
        real = torch.ones(b, n, dtype=torch.bool) if mask is None else mask
        self.real = real
        self.seen = real[:, None, :] | ~real[:, :, None]
        if self.causal:
            self.seen = self.seen & torch.ones(n, n, dtype=torch.bool).tril()
        return self.fit(self.run(0, [x], (0, 1), ()), self.width)

    def run(self, index: int, values: list[Any], lane: tuple[int, int], path: Any) -> Any:
        """``lane``: which of how many copies of the weights to use."""
        values = list(values)
        needed = self.needed(index)
        for place, do in enumerate(self.program.subprograms[index].code):
            here = (*path, place)
            values.append(self.branched(do, values, lane, here) if place in needed else None)
        return values[-1] if self.program.subprograms[index].code else values[0]

    def needed(self, index: int) -> set[int]:
        sub = self.program.subprograms[index]

        def asks(place: int) -> set[int]:
            if place < 0:
                return set()
            do = sub.code[place]
            read = {do.first - sub.inputs}
            two = do.op in BINARY or do.op.startswith("mat_mul")
            if two or (do.op == "call" and self.program.subprograms[do.calls].inputs == 2):
                read.add(do.second - sub.inputs)
            return {place}.union(*(asks(p) for p in read))

        return asks(len(sub.code) - 1)

    def branched(self, do: Instruction, values: list[Any], lane: Any, path: Any) -> Any:
        if do.branches == 1 or do.op == "mat_mul_transposed":
            return self.once(do, values, lane, path)
        results = [
            self.once(do, values, (lane[0] * do.branches + i, lane[1] * do.branches), path)
            for i in range(do.branches)
        ]
        if isinstance(results[0], list):
            return [one for maps in results for one in maps]
        return torch.cat(results, dim=-1)

    def once(self, do: Instruction, values: list[Any], lane: Any, path: Any) -> Any:
        first, second = values[do.first], values[do.second] if do.second < len(values) else None
        if do.op == "call":
            inputs = self.program.subprograms[do.calls].inputs
            return self.run(do.calls, [first, second][:inputs], lane, path)
        if do.op in BINARY:
            return self.binary(do.op, first, second)
        if do.op == "mat_mul":
            return self.mat_mul(first, second)
        if do.op == "mat_mul_transposed":
            return self.compare(do, first, second)
        if do.op.startswith(("conv", "depthwise")) or do.op in ("scale", "shift"):
            return self.learned(do, first, lane, path)
        if isinstance(first, list):
            if do.op in REDUCE:
                return torch.cat([self.single(do, one) for one in first], dim=-1)
            return [self.single(do, one) for one in first]
        return self.single(do, first)

    def single(self, do: Instruction, x: Tensor) -> Tensor:
        """What reads one value: rows, or one map of scores."""
        scores = x.shape[-1] == x.shape[-2] and x.shape[-1] == self.seen.shape[-1]
        constant = self.program.constants[do.constant] if do.op in ("max", "min", "c_mul") else 0.0
        if do.op in UNARY:
            return UNARY[do.op](x)
        if do.op == "c_mul":
            return x * constant
        if do.op in ("max", "min"):
            bound = torch.full_like(x, constant)
            return torch.maximum(x, bound) if do.op == "max" else torch.minimum(x, bound)
        if do.op == "mask":
            return x.masked_fill(~self.seen, -math.inf)
        if do.op in REDUCE:
            fill, reduce = REDUCE[do.op]
            if not scores:
                return reduce(x, x.shape[-1])
            return reduce(x.masked_fill(~self.seen, fill), self.seen.sum(-1, keepdim=True))
        assert do.op in ("cum_sum", "cum_prod")
        neutral, axis = (0.0 if do.op == "cum_sum" else 1.0), (-1 if scores else 1)
        hidden = ~self.seen if scores else ~self.real[..., None]
        x = x.masked_fill(hidden, neutral)
        return x.cumsum(axis) if do.op == "cum_sum" else x.cumprod(axis)

    def fit(self, x: Tensor, width: int) -> Tensor:
        if x.shape[-1] == 1:
            return x.expand(*x.shape[:-1], width)
        x = x[..., :width]
        return torch.cat((x, x.new_zeros(*x.shape[:-1], width - x.shape[-1])), dim=-1)

    def binary(self, op: str, first: Any, second: Any) -> Any:
        if not isinstance(first, list) and not isinstance(second, list):
            if 1 not in (first.shape[-1], second.shape[-1]):
                second = self.fit(second, first.shape[-1])
            return BINARY[op](first, second)
        maps = max(len(v) if isinstance(v, list) else v.shape[-1] for v in (first, second))
        pair = []
        for value in (first, second):
            each = value if isinstance(value, list) else list(value.split(1, dim=-1))
            pair.append(each * maps if len(each) == 1 else each)
        return [BINARY[op](a, b) for a, b in zip(*pair, strict=True)]

    def mat_mul(self, scores: list[Tensor], second: Any) -> Any:
        weights = [one.masked_fill(~self.seen, 0.0) for one in scores]
        if isinstance(second, list):
            many = max(len(weights), len(second))
            weights = weights * many if len(weights) == 1 else weights
            second = second * many if len(second) == 1 else second
            return [a @ b for a, b in zip(weights, second, strict=True)]
        shares = second.chunk(len(weights), dim=-1)
        return torch.cat([a @ b for a, b in zip(weights, shares, strict=True)], dim=-1)

    def compare(self, do: Instruction, first: Any, second: Any) -> list[Tensor]:
        if isinstance(first, list):
            second = [one.masked_fill(~self.seen, 0.0).mT for one in second]
            return self.mat_mul(first, second)
        width = second.shape[-1] if first.shape[-1] == 1 else first.shape[-1]
        pairs = (self.fit(v, width).chunk(do.branches, dim=-1) for v in (first, second))
        return [q @ k.mT for q, k in zip(*pairs, strict=True)]

    def learned(self, do: Instruction, x: Tensor, lane: Any, path: Any) -> Tensor:
        module = getattr(self.module.code, weight_name(path), None)
        if module is None:  # not built, because nothing may depend on it
            wide = do.op.startswith("conv")
            width = self.program.dims[do.dim] * self.unit if wide else x.shape[-1]
            return x.new_full((*x.shape[:-1], width), math.nan)
        (weight,) = module.parameters()
        if do.op in ("scale", "shift"):
            return x * weight[lane[0]] if do.op == "scale" else x + weight[lane[0]]
        weight = weight.chunk(lane[1], dim=0)[lane[0]]
        if do.op == "conv1":
            return x @ weight.mT
        kernel = kernel_of(do.op)
        before = kernel - 1 if self.causal else kernel // 2
        x = F.pad(x * self.real[..., None], (0, 0, before, kernel - 1 - before))
        n = self.real.shape[1]
        taps = [x[:, i : i + n] for i in range(kernel)]
        if do.op.startswith("depthwise"):
            return sum(tap * weight[:, i] for i, tap in enumerate(taps))
        return sum(tap @ weight[:, :, i].mT for i, tap in enumerate(taps))
