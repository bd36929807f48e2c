"""Straight lines with whole patterns in place of their steps: what one fast kernel computes.

| step | stands for |
|---|---|
| attend | softmax(c q k^T) v over what each query may see: torch's fused attention |
| softmax | mask, difference to the largest, exp, divide by the sum |
| norm | the z-score with a small number under the root, and its scale and shift if they follow |
| dense | a dense map and the shift behind it: a map with a bias |
| relu | the larger of a number and 0 |

A pattern is taken only where nothing else reads what lies inside it, so no step is computed twice
and none is lost. In exact arithmetic, and where numbers are finite, the result is the same.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from formwright.arch.graph.straightline import Step, StraightLine

Match = tuple[Step, set[int]]  # what takes the place of a step, and the steps that go with it
Pass = Callable[["_Graph"], Iterator[tuple[int, Match]]]


@lru_cache(maxsize=512)  # counting and building both ask for it
def fused(line: StraightLine) -> StraightLine:
    """The same computation in fewer, larger steps."""
    for pass_over in (_softmaxes, _attentions, _norms, _affine, _dense):
        line = _replaced(line, pass_over)
    return line


class _Graph:
    """Steps, and who reads whom."""

    def __init__(self, line: StraightLine) -> None:
        self.steps = line.steps
        self.readers: dict[int, set[int]] = defaultdict(set)
        for index, step in enumerate(line.steps):
            for value in step.inputs:
                self.readers[value].add(index)

    def is_op(self, index: int, *ops: str) -> bool:
        """Whether a step is one of these."""
        return self.steps[index].op in ops

    def below(self, index: int, *ops: str) -> int | None:
        """The first input of a step, if it is one of these."""
        first = self.steps[index].inputs[0]
        return first if self.is_op(first, *ops) else None

    def closed(self, inside: set[int], end: int) -> bool:
        """Whether nothing but the pattern itself reads what lies inside it."""
        return all(self.readers[index] <= inside | {end} for index in inside)


def _replaced(line: StraightLine, matches: Pass) -> StraightLine:
    """The line with the matches of one pass, numbered anew."""
    graph = _Graph(line)
    found: dict[int, Step] = {}
    gone: set[int] = set()
    for end, (step, inside) in matches(graph):
        if graph.closed(inside, end) and not (inside | {end}) & gone:
            found[end] = step
            gone |= inside
    if not found:
        return line
    numbers: dict[int, int] = {}
    steps: list[Step] = []
    for index, old in enumerate(line.steps):
        if index not in gone:
            numbers[index] = len(steps)
            step = found.get(index, old)
            steps.append(replace(step, inputs=tuple(numbers[i] for i in step.inputs)))
    return StraightLine(tuple(steps))


def _softmaxes(graph: _Graph) -> Iterator[tuple[int, Match]]:
    """exp(x - max x) / sum, of scores whose hidden keys are minus infinity."""
    for end, step in enumerate(graph.steps):
        if step.op != "divide" or step.result.kind != "scores":
            continue
        weights, turned = step.inputs
        total = _turned(graph, turned, "reduce_sum")
        apart = graph.below(weights, "difference") if graph.is_op(weights, "exp") else None
        if total is None or apart is None or graph.steps[total].inputs != (weights,):
            continue
        hidden, turned_top = graph.steps[apart].inputs
        top = _turned(graph, turned_top, "reduce_max")
        if top is None or graph.steps[top].inputs != (hidden,):
            continue
        if graph.steps[hidden].op == "hide" and graph.steps[hidden].constant == -math.inf:
            inside = {weights, turned, total, apart, hidden, turned_top, top}
            scores = graph.steps[hidden].inputs
            yield end, (Step("softmax", scores, replace(step.result, hidden="zero")), inside)


def _turned(graph: _Graph, index: int, op: str) -> int | None:
    """The reduction that stands as a column beside scores, if it is that."""
    return graph.below(index, op) if graph.is_op(index, "turn") else None


def _attentions(graph: _Graph) -> Iterator[tuple[int, Match]]:
    """softmax(c q k^T) v."""
    for end, step in enumerate(graph.steps):
        if step.op != "mat_mul" or not graph.is_op(step.inputs[0], "softmax"):
            continue
        weights, values = step.inputs
        inside, scale = {weights}, 1.0
        scores = graph.steps[weights].inputs[0]
        while graph.is_op(scores, "c_mul"):
            inside.add(scores)
            scale *= graph.steps[scores].constant
            scores = graph.steps[scores].inputs[0]
        product = graph.steps[scores]
        kinds = tuple(graph.steps[i].result.kind for i in product.inputs)
        if product.op == "mat_mul_transposed" and kinds == ("rows", "rows") and scale > 0:
            inputs = (*product.inputs, values)
            maps = product.result.width
            yield end, (Step("attend", inputs, step.result, scale, maps), inside | {scores})


def _norms(graph: _Graph) -> Iterator[tuple[int, Match]]:
    """(x - mean) / sqrt(variance + eps), the variance written in either way."""
    for end, step in enumerate(graph.steps):
        if step.op != "divide" or step.result.kind != "rows" or len(step.inputs) != 2:
            continue
        centred, root = step.inputs
        if not (graph.is_op(centred, "difference") and graph.is_op(root, "abs_root")):
            continue
        x, mean = graph.steps[centred].inputs
        if not graph.is_op(mean, "reduce_mean") or graph.steps[mean].inputs != (x,):
            continue
        found = _variance(graph, root, x, centred)
        if found is not None and graph.steps[x].result.width == step.result.width > 1:
            eps, inside = found
            yield end, (Step("norm", (x,), step.result, eps), inside | {centred, root, mean})


def _variance(graph: _Graph, root: int, x: int, centred: int) -> tuple[float, set[int]] | None:
    """The number added to the variance below a root, and the steps of both."""
    total = graph.below(root, "add")
    if total is None:
        return None
    spread, small = graph.steps[total].inputs
    one = graph.below(small, "exp") if graph.is_op(small, "c_mul") else None
    nothing = graph.below(one, "c_mul") if one is not None else None
    if one is None or nothing is None or not graph.is_op(spread, "reduce_mean"):
        return None
    zero, eps = graph.steps[nothing], graph.steps[small].constant
    product = graph.steps[spread].inputs[0]
    read = tuple(sorted(graph.steps[product].inputs))
    squared = graph.is_op(product, "square") and read == (centred,)
    squared |= graph.is_op(product, "multiply") and read in (
        tuple(sorted((x, centred))),
        (centred, centred),
    )
    if not squared or zero.constant != 0 or zero.inputs != (spread,) or eps <= 0:
        return None
    return eps, {total, spread, small, one, nothing, product}


def _affine(graph: _Graph) -> Iterator[tuple[int, Match]]:
    """The scale and shift behind a norm of one lane."""
    for end, step in enumerate(graph.steps):
        scale = graph.below(end, "scale") if step.op == "shift" else None
        norm = graph.below(scale, "norm") if scale is not None else None
        if scale is None or norm is None or step.result.lanes > 1:
            continue
        parts = (graph.steps[scale], step)
        new = replace(graph.steps[norm], result=step.result, parts=parts)
        yield end, (new, {scale, norm})


def _dense(graph: _Graph) -> Iterator[tuple[int, Match]]:
    """A dense map with the shift behind it, both of one lane; and the ReLU."""
    for end, step in enumerate(graph.steps):
        if step.op == "max" and step.constant == 0:
            yield end, (replace(step, op="relu"), set())
        dense = graph.below(end, "conv1") if step.op == "shift" else None
        if dense is not None and step.result.lanes == 1:
            parts = (graph.steps[dense], step)
            yield end, (Step("dense", graph.steps[dense].inputs, step.result, parts=parts), {dense})
