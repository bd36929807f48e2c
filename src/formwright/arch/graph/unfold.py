"""Writes a program out as a straight line: checks it, follows its calls, infers all sizes.

Illegal programs raise ``ShapeError`` with the subprogram and the instruction at fault, both
counted from 0 as in the program itself.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, NoReturn

from formwright.arch.graph.instruction import (
    BINARY,
    CONVOLUTIONS,
    DEPTHWISE,
    LEARNED,
    LEGAL_BRANCHES,
    PRODUCTS,
    REDUCTIONS,
    RELATIVE_DIMS,
    USES,
    Instruction,
    kernel_of,
)
from formwright.arch.graph.straightline import (
    Hidden,
    Step,
    StraightLine,
    Value,
    hidden_after,
    hidden_of_two,
)
from formwright.errors import ShapeError

if TYPE_CHECKING:
    from formwright.arch.graph.program import Program, Subprogram

_MOST_SUBPROGRAMS = 64
_MOST_STEPS = 4096  # calls of calls of calls: a short program can be endlessly long
_MOST_CHANNELS = 2**20  # of one value, over all lanes

_FILL = {  # what a hidden score counts as
    "reduce_mean": 0.0,
    "reduce_sum": 0.0,
    "reduce_max": -math.inf,
    "reduce_min": math.inf,
    "reduce_prod": 1.0,
    "cum_sum": 0.0,
    "cum_prod": 1.0,
}


@lru_cache(maxsize=512)  # checking, counting and building all ask for it
def straight_line(program: "Program", width: int) -> StraightLine:
    """Write a program out for a stream of ``width`` channels; ``ShapeError`` if it is illegal."""
    check_structure(program)
    if program.stream not in RELATIVE_DIMS or width % program.stream:
        raise ShapeError(
            f"a program with stream={program.stream} cannot stand in a stream of {width} "
            f"channels; stream must be one of {', '.join(map(str, RELATIVE_DIMS))} and divide it."
        )
    writer = _Writer(program, width // program.stream)
    start = writer.add(Step("stream", (), Value("rows", width)))
    end = writer.subprogram(0, (start,), 1, ())
    if writer.steps[end].result.kind != "rows":
        raise ShapeError(
            "the main subprogram ends with scores; multiply them with rows or reduce them, "
            "so that it ends with rows."
        )
    end = writer.fit(end, width)
    return StraightLine(tuple(_needed(writer.steps, end)))


def check_structure(program: "Program") -> None:
    """Raise ``ShapeError`` unless every number in every instruction points at something."""
    subprograms = program.subprograms
    if not 1 <= len(subprograms) <= _MOST_SUBPROGRAMS:
        raise ShapeError(
            f"a program has {len(subprograms)} subprograms; "
            f"it needs a main one and may have {_MOST_SUBPROGRAMS} in all."
        )
    if subprograms[0].inputs != 1:
        raise ShapeError("the main subprogram must have inputs=1: the stream is all it gets.")
    for dim in program.dims:
        if dim not in RELATIVE_DIMS:
            allowed = ", ".join(map(str, RELATIVE_DIMS))
            raise ShapeError(f"the bank of dims holds {dim}; allowed are {allowed}.")
    for index, sub in enumerate(subprograms):
        if sub.inputs > 2:
            raise ShapeError(f"subprogram {index} has {sub.inputs} inputs; 1 or 2 are allowed.")
        for place, do in enumerate(sub.code):
            _check_instruction(program, index, place, do)


def _check_instruction(program: "Program", index: int, place: int, do: Instruction) -> None:
    known, last = program.subprograms[index].inputs + place, len(program.subprograms) - 1
    fail = partial(_fail, index, place, do)
    for value in operands(program, do):
        if value >= known:
            fail(f"reads value {value}, but only 0 to {known - 1} exist there.")
    if do.branches not in LEGAL_BRANCHES:
        allowed = ", ".join(map(str, LEGAL_BRANCHES))
        fail(f"has {do.branches} branches; allowed are {allowed}.")
    if do.op == "call" and not index < do.calls <= last:
        fail(
            f"calls subprogram {do.calls}; it may only call later ones that exist "
            f"({index + 1} to {last}), so that calls end."
        )
    for bank, used in (("constant", USES[do.op].constant), ("dim", USES[do.op].dim)):
        entries, entry = getattr(program, bank + "s"), getattr(do, bank)
        if used and entry >= len(entries):
            fail(f"uses {bank} {entry}, but the bank {bank}s has {len(entries)}.")


def operands(program: "Program", do: Instruction) -> tuple[int, ...]:
    """The values an instruction reads."""
    if do.op == "call":
        inside = do.calls < len(program.subprograms)
        two = inside and program.subprograms[do.calls].inputs == 2
        return (do.first, do.second) if two else (do.first,)
    return (do.first, do.second) if USES[do.op].second else (do.first,)


def live(program: "Program", sub: "Subprogram") -> set[int]:
    """Places of the instructions that the result of a subprogram needs."""
    needed = {sub.inputs + len(sub.code) - 1} if sub.code else set()
    for place in range(len(sub.code) - 1, -1, -1):
        if sub.inputs + place in needed:
            needed.update(operands(program, sub.code[place]))
    return {value - sub.inputs for value in needed if value >= sub.inputs}


class _Misfit(Exception):
    """Values that do not go together; the writer says where."""


def _fail(index: int, place: int, do: Instruction, message: str) -> NoReturn:
    raise ShapeError(f"subprogram {index}, instruction {place} ({do.op}): {message}")


class _Writer:
    """Writes instructions out as steps. Values are numbers of steps."""

    def __init__(self, program: "Program", unit: int) -> None:
        self.program, self.unit = program, unit
        self.steps: list[Step] = []

    def add(self, step: Step) -> int:
        """One more step; its number."""
        if len(self.steps) >= _MOST_STEPS:
            raise ShapeError(
                f"the program is longer than {_MOST_STEPS} steps with its calls written out; "
                "call fewer subprograms."
            )
        if step.result.width * step.result.lanes > _MOST_CHANNELS:
            raise _Misfit(f"would be wider than {_MOST_CHANNELS} channels; use fewer branches.")
        self.steps.append(step)
        return len(self.steps) - 1

    def subprogram(
        self, index: int, inputs: tuple[int, ...], lanes: int, path: tuple[int, ...]
    ) -> int:
        """Run a subprogram on values; the number of its result."""
        sub = self.program.subprograms[index]
        values, needed = [*inputs], live(self.program, sub)
        for place, do in enumerate(sub.code):
            if place not in needed:
                values.append(-1)  # never read
                continue
            read = tuple(values[v] for v in operands(self.program, do))
            try:
                values.append(self.instruction(do, read, lanes, (*path, place)))
            except _Misfit as misfit:
                _fail(index, place, do, str(misfit))
        return values[-1] if sub.code else values[0]

    def instruction(
        self, do: Instruction, read: tuple[int, ...], lanes: int, path: tuple[int, ...]
    ) -> int:
        """One instruction, in all its branches."""
        if do.branches == 1 or do.op == "mat_mul_transposed":
            return self.once(do, read, lanes, path)
        read = tuple(self.spread(value, do.branches) for value in read)
        return self.join(self.once(do, read, lanes * do.branches, path), do.branches)

    def once(
        self, do: Instruction, read: tuple[int, ...], lanes: int, path: tuple[int, ...]
    ) -> int:
        if do.op == "call":
            return self.subprogram(do.calls, read, lanes, path)
        if do.op in BINARY:
            return self.binary(do.op, *read)
        if do.op in PRODUCTS:
            return self.product(do, *read)
        if do.op in LEARNED:
            return self.learned(do, read[0], lanes, path)
        if do.op in REDUCTIONS or do.op.startswith("cum_"):
            return self.gathered(do.op, read[0])
        value = self.steps[read[0]].result
        if do.op == "mask":
            if value.kind != "scores":
                raise _Misfit("hides scores, but is given rows; make scores of them first.")
            return self.hide(read[0], -math.inf)
        constant = self.program.constants[do.constant] if USES[do.op].constant else 0.0
        hidden = hidden_after(do.op, value.hidden, constant)
        return self.add(Step(do.op, read, replace(value, hidden=hidden), constant))

    # --- values that go together --------------------------------------------------------

    def fit(self, value: int, width: int) -> int:
        """Rows of another width: repeated, cut off or filled up with zeros."""
        rows = self.steps[value].result
        if rows.width == width:
            return value
        return self.add(Step("fit", (value,), replace(rows, width=width), number=width))

    def binary(self, op: str, first: int, second: int) -> int:
        a, b = self.steps[first].result, self.steps[second].result
        if a.kind == b.kind == "rows" and 1 not in (a.width, b.width):
            second = self.fit(second, a.width)
            b = self.steps[second].result
        elif a.kind == b.kind == "scores" and len({a.width, b.width, 1}) > 2:
            raise _Misfit(f"puts {a.width} maps of scores beside {b.width}; make them equal.")
        elif a.kind != b.kind:
            rows, maps = (a, b.width) if a.kind == "rows" else (b, a.width)
            if rows.width not in (1, maps):
                raise _Misfit(
                    f"puts rows of {rows.width} channels beside scores of {maps} maps; reduce "
                    "the rows to one channel or multiply the scores with them."
                )
            first, second = (self.turned(first), self.turned(second))
        kind: Literal["rows", "scores"] = "rows" if a.kind == b.kind == "rows" else "scores"
        result = Value(kind, max(a.width, b.width), max(a.lanes, b.lanes), hidden_of_two(op, a, b))
        return self.add(Step(op, (first, second), result))

    def turned(self, value: int) -> int:
        """Rows as a column beside scores; scores as they are."""
        rows = self.steps[value].result
        if rows.kind != "rows":
            return value
        return self.add(Step("turn", (value,), replace(rows, kind="column")))

    def spread(self, value: int, branches: int) -> int:
        """A value for each of several branches; one that all share needs no copies."""
        known = self.steps[value].result
        if known.lanes == 1:
            return value
        lanes = replace(known, lanes=known.lanes * branches)
        return self.add(Step("spread", (value,), lanes, number=branches))

    def join(self, value: int, branches: int) -> int:
        """What branches gave, side by side: as channels of rows, as maps of scores."""
        known = self.steps[value].result
        wider = replace(known, width=known.width * branches)
        if known.lanes == 1:  # they all gave the same
            return self.add(Step("repeat", (value,), wider, number=branches))
        joined = replace(wider, lanes=known.lanes // branches)
        return self.add(Step("join", (value,), joined, number=branches))

    # --- across tokens ------------------------------------------------------------------

    def hide(self, value: int, fill: float) -> int:
        """Scores with ``fill`` where a query may not look, unless that is there already."""
        scores = self.steps[value].result
        state: Hidden = {0.0: "zero", -math.inf: "low"}.get(fill, "anything")  # type: ignore[assignment]
        if state != "anything" and scores.hidden == state:
            return value
        return self.add(Step("hide", (value,), replace(scores, hidden=state), fill))

    def gathered(self, op: str, value: int) -> int:
        """A reduction or a running total."""
        known = self.steps[value].result
        if known.kind == "scores":
            value = self.hide(value, _FILL[op])
        if op.startswith("cum_"):
            return self.add(Step(op, (value,), replace(known, hidden="anything")))
        width = 1 if known.kind == "rows" else known.width
        return self.add(Step(op, (value,), Value("rows", width, known.lanes)))

    def product(self, do: Instruction, first: int, second: int) -> int:
        a, b = self.steps[first].result, self.steps[second].result
        lanes, kinds = max(a.lanes, b.lanes), (a.kind, b.kind)
        transposed = do.op == "mat_mul_transposed"
        if transposed and kinds == ("rows", "rows"):
            width = b.width if a.width == 1 else a.width  # a single channel is repeated
            first, second = self.fit(first, width), self.fit(second, width)
            if width % do.branches:
                raise _Misfit(f"cannot split {width} channels among {do.branches} branches.")
            return self.add(Step(do.op, (first, second), Value("scores", do.branches, lanes)))
        if kinds == ("scores", "rows") and not transposed:
            if b.width % a.width:
                raise _Misfit(f"cannot share {b.width} channels among {a.width} maps of scores.")
            first = self.hide(first, 0.0)
            return self.add(Step(do.op, (first, second), Value("rows", b.width, lanes)))
        if kinds != ("scores", "scores"):
            wanted = "rows with rows or scores with scores"
            wanted = wanted if transposed else "scores with rows or with scores"
            raise _Misfit(f"multiplies {a.kind} with {b.kind}; it can multiply {wanted}.")
        if len({a.width, b.width, 1}) > 2:
            raise _Misfit(f"multiplies {a.width} maps of scores with {b.width}; make them equal.")
        first = self.hide(first, 0.0)
        second = self.hide(second, 0.0) if transposed else second
        stays = not transposed and b.hidden == "zero"  # a product of triangles is a triangle
        hidden: Hidden = "zero" if stays else "anything"
        result = Value("scores", max(a.width, b.width), lanes, hidden)
        return self.add(Step(do.op, (first, second), result))

    def learned(self, do: Instruction, value: int, lanes: int, path: tuple[int, ...]) -> int:
        """A step with weights, one set for each lane."""
        rows = self.steps[value].result
        if rows.kind != "rows":
            raise _Misfit("has weights for channels, which scores have none of; give it rows.")
        if do.op in CONVOLUTIONS:
            out = self.program.dims[do.dim] * self.unit
            kernel = kernel_of(do.op)
            weight: tuple[int, ...] = (lanes * out, rows.width, kernel)[: 2 + (kernel > 1)]
            result = Value("rows", out, lanes)
            return self.add(Step(do.op, (value,), result, 0.0, kernel, weight, path))
        result = Value("rows", rows.width, lanes)
        if do.op in DEPTHWISE:
            kernel = kernel_of(do.op)
            if rows.lanes != lanes:
                value = self.add(Step("spread", (value,), result, number=lanes))
            weight = (lanes * rows.width, kernel)
            return self.add(Step(do.op, (value,), result, 0.0, kernel, weight, path))
        return self.add(Step(do.op, (value,), result, weight=(lanes, 1, rows.width), path=path))


def _needed(steps: list[Step], end: int) -> Iterator[Step]:
    """The steps that lead to the end, numbered anew; the input always stays."""
    wanted = {0, end}
    for index in range(end, -1, -1):
        if index in wanted:
            wanted.update(steps[index].inputs)
    numbers = {old: new for new, old in enumerate(sorted(wanted))}
    for old in sorted(wanted):
        yield replace(steps[old], inputs=tuple(numbers[i] for i in steps[old].inputs))
