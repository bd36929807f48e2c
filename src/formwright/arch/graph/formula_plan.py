"""A formula as straight-line code: what is computed, in which order, for which tokens.

Counting and building both follow the plan, so they agree. Dead steps are not in it. Where a text
is read piece by piece, results are wanted for the ``new`` tokens only, while keys and values are
those of ``all`` tokens; walking back from the result shows which part of each value is needed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from formwright.arch.graph.formula_steps import PROJECTED, Step, Value, keeps_to_visible, result_of
from formwright.errors import ShapeError

Extent = Literal["new", "all", "dim"]
Wanted = tuple[Extent, Extent]


@dataclass(frozen=True)
class Instruction:
    """One line: ``op`` on the results of earlier lines.

    Beside the words of steps there are ``input`` (a projected input, ``number`` says which),
    ``weigh`` (the masked softmax over scores), ``softmax_tokens`` (over the tokens of columns),
    ``real_rows`` and ``real_columns`` (padding set to zero), ``newest`` (the last columns), and
    ``attend``, softmax(q k / sqrt(d)^number) v in one fused call on rows, columns and rows.
    """

    op: str
    of: tuple[int, ...]
    extent: Wanted
    number: int = 0


@dataclass(frozen=True)
class FormulaPlan:
    """All lines; the last one is the result."""

    lines: tuple[Instruction, ...]

    def inputs(self) -> list[tuple[int, Extent]]:
        """Which projected inputs are read, and for which tokens, in the order of the lines."""
        return [(line.number, line.extent[0]) for line in self.lines if line.op == "input"]

    def is_fused(self) -> bool:
        """Whether no product is left outside the fused calls."""
        return not any(line.op in ("matmul", "cosine", "euclidean") for line in self.lines)


def values_of(steps: Sequence[Step], paths: int, *, causal: bool) -> list[Value]:
    """What is known of every value; a step that does not fit is named in a ``ShapeError``."""
    values = [PROJECTED] * paths
    for number, step in enumerate(steps):
        try:
            operands = [_earlier(values, at) for at in step.of]
            values.append(result_of(step.op, operands, causal=causal))
        except ShapeError as error:
            where = f"step {number + 1} of {len(steps)}, {step.op}({list(step.of)})"
            raise ShapeError(f"{where}: {error}") from None
    return values


def alive(steps: Sequence[Step], paths: int) -> set[int]:
    """The numbers of all values that the result depends on, itself included."""
    found = {paths + len(steps) - 1}
    for at in range(paths + len(steps) - 1, paths - 1, -1):
        if at in found:
            found.update(steps[at - paths].of)
    return found


def plan(steps: Sequence[Step], paths: int, *, piecewise: bool = False) -> FormulaPlan:
    """Straight-line code for steps that fit together.

    Args:
        steps: What to compute; they must have passed ``values_of``.
        paths: How many projected inputs there are.
        piecewise: Whether there are tokens of earlier calls beside the new ones.
    """
    return _Planner(steps, paths).planned("new" if piecewise else "all")


def _earlier(values: Sequence[Value], at: int) -> Value:
    if at >= len(values):
        raise ShapeError(
            f"value {at} does not exist yet; there are values 0 to {len(values) - 1} before it."
        )
    return values[at]


@dataclass(frozen=True)
class _Fused:
    """softmax(q k / sqrt(d)^scales) v, by the numbers of its values."""

    q: int
    k: int
    v: int
    scales: int


class _Planner:
    def __init__(self, steps: Sequence[Step], paths: int) -> None:
        self.steps, self.paths = steps, paths
        self.values = values_of(steps, paths, causal=False)
        self.fused = dict(self._fusions())
        self.lines: list[Instruction] = []
        self.known: dict[tuple[str, tuple[int, ...], Wanted, int], int] = {}
        self.at: dict[tuple[int, Wanted], int] = {}  # value and extent to line

    def planned(self, new: Extent) -> FormulaPlan:
        last = self.paths + len(self.steps) - 1
        wanted: dict[int, dict[Wanted, None]] = {last: {(new, "dim"): None}}  # in order
        for value in range(last, self.paths - 1, -1):
            for extent in list(wanted.get(value, ())):
                for operand, needed in self._needs(value, extent):
                    wanted.setdefault(operand, {})[needed] = None
        for value in sorted(wanted):
            for extent in wanted[value]:
                self.at[value, extent] = self._lines(value, extent)
        return FormulaPlan(tuple(self.lines))

    def _needs(self, value: int, extent: Wanted) -> list[tuple[int, Wanted]]:
        """Which part of which earlier values gives this part of a value."""
        step = self.steps[value - self.paths]
        first, last = step.of[0], step.of[-1]
        if value in self.fused:
            fused = self.fused[value]
            return [(fused.q, (extent[0], "dim")), (fused.k, ("dim", "all")), (fused.v, _ALL_ROWS)]
        match step.op:
            case "transpose":
                return [(first, (extent[1], extent[0]))]
            case "matmul":
                inner: Extent = "all" if self.values[first].columns == "tokens" else "dim"
                return [(first, (extent[0], inner)), (last, (inner, extent[1]))]
            case "cosine" | "euclidean":
                return [(first, (extent[0], "dim")), (last, (extent[1], "dim"))]
            case "softmax":
                return [(first, self._softmax_extent(value, extent))]
            case _:
                return [(operand, extent) for operand in step.of]

    def _softmax_extent(self, value: int, extent: Wanted) -> Wanted:
        """A softmax over tokens needs all of them."""
        return (extent[0], "all") if self.values[value].columns == "tokens" else extent

    def _lines(self, value: int, extent: Wanted) -> int:
        if value < self.paths:
            return self._line("input", (), extent, value)
        step = self.steps[value - self.paths]
        of = tuple(self.at[need] for need in self._needs(value, extent))
        if value in self.fused:
            q, k, v = of
            return self._line("attend", (q, k, v), extent, self.fused[value].scales)
        match step.op:
            case "softmax":
                return self._softmax(value, of, extent)
            case "matmul":
                return self._line("matmul", self._without_padding(step, of), extent)
            case _:
                return self._line(step.op, of, extent)

    def _softmax(self, value: int, of: tuple[int, ...], extent: Wanted) -> int:
        words = {"scores": "weigh", "columns": "softmax_tokens"}
        whole = self._softmax_extent(value, extent)
        line = self._line(words.get(self.values[value].name, "softmax"), of, whole)
        return line if whole == extent else self._line("newest", (line,), extent)

    def _without_padding(self, step: Step, of: tuple[int, ...]) -> tuple[int, ...]:
        """The factors of a product, padding set to zero where they do not see to it."""
        (first, last), (left, right) = (self.values[at] for at in step.of), of
        if first.columns != "tokens" or keeps_to_visible(first, last):
            return of
        if first.name == "columns":  # the smaller one, where there is a choice
            return self._line("real_columns", (left,), self.lines[left].extent), right
        return left, self._line("real_rows", (right,), self.lines[right].extent)

    def _line(self, op: str, of: tuple[int, ...], extent: Wanted, number: int = 0) -> int:
        key = (op, of, extent, number)
        if key not in self.known:
            self.known[key] = len(self.lines)
            self.lines.append(Instruction(op, of, extent, number))
        return self.known[key]

    # --- fusion -------------------------------------------------------------------------

    def _fusions(self) -> Iterator[tuple[int, _Fused]]:
        """Products that are softmax attention, and whose weights nothing else uses."""
        live = alive(self.steps, self.paths)
        uses = Counter(
            at for number in live if number >= self.paths for at in self._step(number).of
        )
        for value in sorted(live):
            if value < self.paths or self._step(value).op != "matmul":
                continue
            weights, v = self._step(value).of
            if self.values[weights].name != "scores" or self.values[v].name != "rows":
                continue
            chain = self._chain(weights)
            if chain is not None and all(uses[at] == 1 for at in chain):
                q, k = self._step(chain[-1]).of
                yield value, _Fused(q, k, v, scales=len(chain) - 2)

    def _chain(self, weights: int) -> list[int] | None:
        """A softmax, any scales, and the product of rows and columns below it, if it is that."""
        if weights < self.paths or self._step(weights).op != "softmax":
            return None
        chain = [weights]
        while True:
            below = self._step(chain[-1]).of[0]
            chain.append(below)
            if below < self.paths:
                return None
            step = self._step(below)
            if step.op == "matmul":
                return chain if self.values[step.of[0]].name == "rows" else None
            if step.op != "scale":
                return None

    def _step(self, value: int) -> Step:
        return self.steps[value - self.paths]


_ALL_ROWS: Wanted = ("all", "dim")
