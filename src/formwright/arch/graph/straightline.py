"""A program written out: calls replaced by what they call, sizes inferred, masks put in.

The result is a row of steps, each with what it gives, from which counting and building both
read. Steps that the result does not need are left out, so they have no weights.

Branches become **lanes**: what stands inside a call with four branches is one step with four
lanes, not four steps, and is computed at once. A value that all branches share has one lane.
"""

import math
from dataclasses import dataclass
from typing import Literal

from formwright.arch.graph.instruction import CONVOLUTIONS, DEPTHWISE, PRODUCTS
from formwright.arch.site import Count, Load

Hidden = Literal["anything", "low", "zero"]


@dataclass(frozen=True)
class Value:
    """What is known about a value before it is computed.

    ``width``: channels of rows, maps of scores. ``column`` is rows turned so that they can stand
    beside scores: one number per map and query. ``hidden``: what scores hold where a query may
    not look: minus infinity (low), zero, or anything.
    """

    kind: Literal["rows", "scores", "column"]
    width: int
    lanes: int = 1
    hidden: Hidden = "anything"

    def size(self, load: Load) -> int:
        """Numbers in it."""
        keys = load.length + load.past if self.kind == "scores" else 1
        return load.tokens * self.lanes * self.width * keys


@dataclass(frozen=True)
class Step:
    """One thing to compute.

    ``op`` is a primitive or one of: stream (the input), fit (to another width), spread (into
    lanes), join (lanes into channels), repeat (channels), turn (rows into a column), hide (fill
    hidden scores with ``constant``). ``number`` is a width, a count of branches or a kernel.
    ``path`` leads through the calls to the instruction: its place in each subprogram.
    ``fuse`` adds: attend, softmax, norm, dense, relu; ``parts`` are then the steps whose weights
    such a step has, each under its own path.
    """

    op: str
    inputs: tuple[int, ...]
    result: Value
    constant: float = 0.0
    number: int = 0
    weight: tuple[int, ...] = ()
    path: tuple[int, ...] = ()
    parts: tuple["Step", ...] = ()

    @property
    def params(self) -> int:
        """Numbers that it learns."""
        own = math.prod(self.weight) if self.weight else 0
        return own + sum(part.params for part in self.parts)


@dataclass(frozen=True)
class StraightLine:
    """Steps in order; inputs are numbers of earlier steps, the last step is the result."""

    steps: tuple[Step, ...]

    @property
    def reads_pieces(self) -> bool:
        """Whether a text can be read piece by piece: products of scores need all of them."""
        return not any(
            (step.op == "cum_prod" and step.result.kind == "rows")
            or (step.op in PRODUCTS and self.kinds(step) == ("scores", "scores"))
            for step in self.steps
        )

    def kinds(self, step: Step) -> tuple[str, ...]:
        """What kinds of values a step reads."""
        return tuple(self.steps[i].result.kind for i in step.inputs)

    def count(self, load: Load) -> Count:
        """Weights, work, and what the backward pass needs."""
        total, kept = Count(), set[int]()
        for index, step in enumerate(self.steps):
            total += Count(step.params, self._flops(step, load), self._copied(step, load))
            kept.update(self._storage(i) for i in _saved(step, index) if not self._copies(step, i))
        return total + Count(kept=sum(self.steps[i].result.size(load) for i in kept))

    def _copies(self, step: Step, value: int) -> bool:
        """Whether a step works on a copy of a value: rows are dealt out to several maps."""
        scores = self.steps[step.inputs[0]].result if step.op == "mat_mul" else step.result
        rows = self.steps[value].result.kind == "rows"
        return step.op in PRODUCTS and rows and scores.width > 1

    def _copied(self, step: Step, load: Load) -> int:
        """Numbers that the gradient of a step needs and that are no value of their own."""
        read = [self.steps[i].result for i in step.inputs if self._copies(step, i)]
        if read:
            return sum(value.size(load) for value in read)
        if step.op == "log":  # the absolute value
            return step.result.size(load)
        if step.op == "norm":  # mean and deviation
            return 2 * load.tokens * step.result.lanes
        if step.op == "attend":  # the logarithm of each sum
            return load.tokens * step.result.lanes * step.number
        if step.number > 1 and step.op in (*CONVOLUTIONS, *DEPTHWISE):  # zeros around the tokens
            rows = self.steps[step.inputs[0]].result
            return load.batch * (load.length + step.number - 1) * rows.lanes * rows.width
        return 0

    def _flops(self, step: Step, load: Load) -> int:
        if step.op in (*CONVOLUTIONS, *DEPTHWISE):
            return 2 * load.tokens * step.params
        if step.op == "dense":
            return 2 * load.tokens * step.parts[0].params
        if step.op == "attend":
            keys, lanes = load.length + load.past, step.result.lanes
            query, _, value = (self.steps[i].result.width for i in step.inputs)
            return 2 * load.tokens * keys * lanes * (query + value)
        if step.op not in PRODUCTS:
            return 0
        first, second = (self.steps[i].result for i in step.inputs)
        keys, lanes = load.length + load.past, max(first.lanes, second.lanes)
        if second.kind == "rows":  # every channel with every key, in whichever map
            return 2 * load.tokens * keys * lanes * second.width
        maps = max(first.width, second.width)
        return 2 * load.tokens * keys * keys * lanes * maps

    def _storage(self, index: int) -> int:
        """The value whose memory this one shares."""
        while self.steps[index].op == "turn" or self._is_view_of_heads(index):
            (index,) = self.steps[index].inputs
        return index

    def _is_view_of_heads(self, index: int) -> bool:
        """Whether heads stand side by side in memory already: the fused kernel writes them so."""
        step = self.steps[index]
        if step.op != "join" or step.result.lanes > 1:
            return False
        return self.steps[step.inputs[0]].op == "attend"


def _saved(step: Step, index: int) -> tuple[int, ...]:
    """The values that the gradient of a step needs."""
    if step.op in _SAVES_BOTH:
        return (*step.inputs, index)
    if step.op in _SAVES_RESULT:
        return (index,)
    if step.op in _SAVES_INPUT or (step.op in CONVOLUTIONS and step.number == 1):
        return step.inputs
    return ()


_SAVES_RESULT = ("exp", "recip", "tanh", "sigmoid", "relu", "softmax")
_SAVES_INPUT = (
    *("multiply", "divide", *PRODUCTS),
    *("abs", "square", "log", "cos", "sin", "max", "min", "scale", "norm", "dense"),
)
_SAVES_BOTH = ("attend", "abs_root", "reduce_max", "reduce_min", "reduce_prod", "cum_prod")


def hidden_after(op: str, hidden: Hidden, constant: float) -> Hidden:
    """What hidden scores hold after a function of each number, where that is certain."""
    if hidden == "low":
        if op == "min" or (op == "c_mul" and constant > 0):
            return "low"
        if op in ("exp", "sigmoid", "recip") or (op == "max" and constant == 0):
            return "zero"
    elif hidden == "zero":
        keeps = ("abs", "abs_root", "square", "sign", "sin", "tanh", "c_mul")
        if op in keeps or (op == "max" and constant <= 0) or (op == "min" and constant >= 0):
            return "zero"
    return "anything"


def hidden_of_two(op: str, a: Value, b: Value) -> Hidden:
    """The same for two values. 0 * infinity is not 0, so a product needs care."""
    if b.kind == "rows":  # one number per query: nothing of what is hidden comes in
        keeps = ("add", "difference") if a.hidden == "low" else ("multiply", "divide")
        return a.hidden if op in keeps else "anything"
    if a.hidden == b.hidden == "zero" and op != "divide":
        return "zero"
    if a.hidden == "low" and (b.hidden, op) in (
        ("low", "add"),
        ("zero", "add"),
        ("zero", "difference"),
    ):
        return "low"
    return "anything"
