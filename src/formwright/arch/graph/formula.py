"""Attention as a graph of maths: projected inputs, steps between them, an output map.

Paper: "AutoBERT-Zero: Evolving BERT Backbone from Scratch", Gao et al. 2022,
https://arxiv.org/abs/2107.07445. Differs from the paper: what the result does not depend on,
steps and projected inputs alike, is allowed but neither built nor counted.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import ClassVar

from formwright.arch.graph.formula_plan import FormulaPlan, Instruction, alive, plan, values_of
from formwright.arch.graph.formula_steps import OpWord, Step, contracts_tokens
from formwright.arch.layer import Layer
from formwright.arch.node import Open, Positive, node
from formwright.arch.site import Count, Load, Site, dense
from formwright.errors import ShapeError


@node("formula")
class Formula(Layer):
    """An attention whose maths is spelled out.

    The first ``paths`` values are projections of the stream, split into heads: Q, K, V. Each
    step makes one more value from earlier ones; the last is the result, to which an output map
    is applied. Positions inside attention (rotary, biases) do not reach it.

    In a causal stack scores may multiply only after a softmax, which is masked; a product of
    columns and rows sees all tokens and is refused there.
    """

    heads: Positive
    steps: tuple[Step, ...]
    paths: Positive = 3
    key: Positive | None = None
    bias: bool = True

    paper: ClassVar[str] = "https://arxiv.org/abs/2107.07445"
    complexity: ClassVar[str] = "n^2"

    def key_size(self, width: int) -> int:
        """Channels of one head."""
        return self.key or max(1, width // self.heads)

    def used_paths(self) -> list[int]:
        """The projected inputs that the result depends on; only these are built."""
        return sorted(at for at in alive(self.steps, self.paths) if at < self.paths)

    def plan(self, *, piecewise: bool = False) -> FormulaPlan:
        """The formula as straight-line code."""
        return plan(self.steps, self.paths, piecewise=piecewise)

    def out_width(self, site: Site) -> int:
        if not self.steps:
            raise ShapeError("a formula without steps mixes nothing; give it at least a matmul.")
        values = values_of(self.steps, self.paths, causal=site.causal)
        if values[-1].name != "rows":
            raise ShapeError(
                f"the last step of a formula must give rows (tokens x dim), not {values[-1]}; "
                "multiply scores with rows at the end."
            )
        live = alive(self.steps, self.paths)
        mixing = (
            contracts_tokens(step.op, [values[at] for at in step.of])
            for number, step in enumerate(self.steps, self.paths)
            if number in live
        )
        if not any(mixing):
            raise ShapeError(
                "no step that the result depends on sums over tokens, so none hears of another; "
                "multiply scores with rows, or columns with rows."
            )
        return site.width

    def count(self, site: Site, load: Load) -> Count:
        width, size = site.width, self.key_size(site.width)
        total = Count(kept=load.tokens * width)
        for _ in self.used_paths():
            total += dense(load.tokens, width, self.heads * size, bias=self.bias)
        total += dense(load.tokens, self.heads * size, width, bias=self.bias)
        lines = self.plan(piecewise=load.past > 0).lines
        extents = {"new": load.length, "all": load.length + load.past, "dim": size}
        each = _Counter(lines, extents).count()
        heads = load.batch * self.heads
        return total + Count(flops=heads * each.flops, kept=heads * each.kept)


class _Counter:
    """Counts the lines of a plan, for one head of one text."""

    def __init__(self, lines: Sequence[Instruction], extents: dict[str, int]) -> None:
        self.lines, self.extents = lines, extents

    def count(self) -> Count:
        flops, extra, kept = 0, 0, set[int]()
        for at, line in enumerate(self.lines):
            rows, columns = (self.extents[axis] for axis in line.extent)
            match line.op:
                case "matmul":
                    flops += 2 * rows * columns * self._columns(line.of[0])
                    kept.update(map(self._stored, line.of))
                case "cosine":  # both operands, and again brought to length 1
                    flops += 2 * rows * columns * self.extents["dim"]
                    kept.update(map(self._stored, line.of))
                    extra += sum(self._size(of) + 2 * self._rows(of) for of in line.of)
                case "euclidean":  # not a matrix product, so it has no FLOPs
                    kept.update((*map(self._stored, line.of), at))
                case "attend":
                    flops += 4 * rows * columns * self._columns(line.of[1])
                    kept.update((*map(self._stored, line.of), at))
                    extra += rows  # one number per query makes the weights again
                case "weigh" | "softmax" | "softmax_tokens":
                    kept.add(at)
                case "logsigmoid" | "softsign":  # the operand, and a tensor of its size
                    kept.add(self._stored(line.of[0]))
                    extra += rows * columns
        if self.lines[-1].op != "attend":  # the output map keeps a copy with the heads in a row
            extra += self._size(len(self.lines) - 1)
        return Count(flops=flops, kept=extra + sum(map(self._size, kept)))

    def _stored(self, at: int) -> int:
        """The line whose memory this one shows."""
        while self.lines[at].op in ("transpose", "newest", "real_rows", "real_columns"):
            at = self.lines[at].of[0]
        return at

    def _size(self, at: int) -> int:
        return self._rows(at) * self._columns(at)

    def _rows(self, at: int) -> int:
        return self.extents[self.lines[at].extent[0]]

    def _columns(self, at: int) -> int:
        return self.extents[self.lines[at].extent[1]]


def tidied(formula: Formula) -> Formula:
    """The one way of writing a formula, among those that compute the same to the last digit.

    Left out: steps and projected inputs that the result does not depend on, steps that repeat
    an earlier one, a sign or a transposition taken twice. The operands of a sum are sorted, and
    each step stands just before it is needed. Formulas that cannot be built stay as they are.
    """
    steps, paths = formula.steps, formula.paths
    if any(isinstance(part, Open) for _, part in formula.walk()) or not steps:
        return formula
    try:
        values_of(steps, paths, causal=False)
    except ShapeError:
        return formula
    used = formula.used_paths()
    names, made = _named(steps, [f"{used.index(p) if p in used else -1}" for p in range(paths)])
    if names[-1] not in made:
        return formula
    numbers = {str(number): number for number in range(len(used))}
    written: list[Step] = []
    for name in _ordered(names[-1], made):
        if name in made:
            op, of = made[name]
            numbers[name] = len(used) + len(written)
            written.append(Step(op, tuple(numbers[operand] for operand in of)))
    return formula.replace(steps=tuple(written), paths=len(used))


_Made = tuple[OpWord, tuple[str, ...]]  # a step whose operands are given by name


def _named(steps: Sequence[Step], inputs: Sequence[str]) -> tuple[list[str], dict[str, _Made]]:
    """A name for every value, equal where values are equal, and how each name is made."""
    names = list(inputs)
    made: dict[str, _Made] = {}
    for step in steps:
        of = tuple(names[at] for at in step.of)
        inner = made.get(of[0]) if of else None
        if inner is not None and inner[0] == step.op and step.op in ("neg", "transpose"):
            names.append(inner[1][0])
            continue
        of = tuple(sorted(of)) if step.op == "add" else of
        name = sha256(" ".join((step.op, *of)).encode()).hexdigest()
        made[name] = step.op, of
        names.append(name)
    return names, made


def _ordered(result: str, made: dict[str, _Made]) -> list[str]:
    """Every name that the result needs, each once and after what it is made from."""
    order: dict[str, None] = {}
    waiting = [result]
    while waiting:
        name = waiting[-1]
        of = made[name][1] if name in made else ()
        missing = [operand for operand in of if operand not in order]
        if missing:
            waiting.append(missing[0])
        else:
            order[waiting.pop()] = None
    return list(order)
