"""The one form of a program that stands for all ways of writing the same graph.

What is not needed goes: instructions without effect, subprograms that nobody calls, inputs that
nobody reads, fields that a word does not look at, calls of subprograms that do nothing. What is
left stands in the order in which the result asks for it; equal subprograms become one; the banks
hold each used number once, in order of size. A call written out in place of a subprogram remains
a different program, because it is changed differently by a search.
"""

from dataclasses import dataclass, field
from typing import TypeVar

from formwright.arch.graph.instruction import USES, Instruction
from formwright.arch.graph.program import Program, Subprogram
from formwright.arch.graph.unfold import check_structure
from formwright.arch.node import Open

Number = TypeVar("Number", int, float)


def tidy_program(program: Program) -> Program:
    """The canonical form of a program; one with open decisions is left as it is."""
    if any(isinstance(node, Open) for _, node in program.walk()):
        return program
    if any(isinstance(v, Open) for v in (*program.constants, *program.dims)):
        return program
    check_structure(program)
    tidy = _Tidy(program)
    for index in range(len(program.subprograms) - 1, -1, -1):  # what is called comes first
        tidy.take(index)
    return tidy.result()


@dataclass(frozen=True)
class _Tidied:
    """A tidy subprogram, and which of the inputs it was written with it still reads."""

    kind: int  # equal subprograms share it
    reads: tuple[int, ...]


@dataclass
class _Tidy:
    program: Program
    kinds: list[Subprogram] = field(default_factory=list)  # calls hold kinds
    done: dict[int, _Tidied] = field(default_factory=dict)  # by the place it was written at
    constants: list[float] = field(default_factory=list)  # each once, in the order of their use
    dims: list[int] = field(default_factory=list)

    def take(self, index: int) -> None:
        """Tidy one subprogram; those it calls must be tidy already."""
        sub = self.program.subprograms[index]
        last = self.alias(sub, sub.inputs + len(sub.code) - 1 if sub.code else 0)
        order = self.order(sub, last)
        reads = tuple(v for v in range(sub.inputs) if v in order)
        numbers = {old: new for new, old in enumerate(reads)}
        code: list[Instruction] = []
        for value in (v for v in order if v >= sub.inputs):
            do = sub.code[value - sub.inputs]
            operands = [numbers[v] for v in self.operands(sub, do)]
            numbers[value] = len(reads) + len(code)
            code.append(self.plain(do, operands))
        tidy = Subprogram(tuple(code), len(reads))
        if tidy not in self.kinds:
            self.kinds.append(tidy)
        self.done[index] = _Tidied(self.kinds.index(tidy), reads)

    def order(self, sub: Subprogram, last: int) -> list[int]:
        """Values that lead to the last one, each after what it reads."""
        order: list[int] = []
        waiting = [(last, False)]
        while waiting:
            value, ready = waiting.pop()
            if value in order:
                continue
            if ready or value < sub.inputs:
                order.append(value)
                continue
            read = self.operands(sub, sub.code[value - sub.inputs])
            waiting += [(value, True), *((v, False) for v in reversed(read))]
        return order

    def operands(self, sub: Subprogram, do: Instruction) -> list[int]:
        """The values an instruction truly reads."""
        given = (do.first, do.second)
        if do.op == "call":
            read = [given[v] for v in self.done[do.calls].reads]
        else:
            read = list(given[: 1 + USES[do.op].second])
        return [self.alias(sub, v) for v in read]

    def alias(self, sub: Subprogram, value: int) -> int:
        """The value itself, or what a call that does nothing passes on."""
        while value >= sub.inputs:
            do = sub.code[value - sub.inputs]
            if do.op != "call" or do.branches > 1:
                break
            called = self.done[do.calls]
            if self.kinds[called.kind].code:
                break
            value = (do.first, do.second)[called.reads[0]]
        return value

    def plain(self, do: Instruction, operands: list[int]) -> Instruction:
        """An instruction that says nothing but what its word looks at."""
        use, given = USES[do.op], self.program.constants
        second = operands[1] if len(operands) == 2 else 0
        constant = _place(self.constants, 0.0 + given[do.constant]) if use.constant else 0
        dim = _place(self.dims, self.program.dims[do.dim]) if use.dim else 0
        calls = self.done[do.calls].kind if do.op == "call" else 0
        return Instruction(do.op, operands[0], second, constant, dim, do.branches, calls)

    def result(self) -> Program:
        """The tidy subprograms in the order in which they are called, banks in order of size."""
        order = self.called_from(self.done[0].kind)
        used = [do for kind in order for do in self.kinds[kind].code]
        constants = sorted({self.constants[do.constant] for do in used if USES[do.op].constant})
        dims = sorted({self.dims[do.dim] for do in used if USES[do.op].dim})

        def moved(do: Instruction) -> Instruction:
            use = USES[do.op]
            return do.replace(
                constant=constants.index(self.constants[do.constant]) if use.constant else 0,
                dim=dims.index(self.dims[do.dim]) if use.dim else 0,
                calls=order.index(do.calls) if do.op == "call" else 0,
            )

        found = (self.kinds[kind] for kind in order)
        subprograms = tuple(sub.replace(code=tuple(map(moved, sub.code))) for sub in found)
        return Program(subprograms, tuple(constants), tuple(dims), self.program.stream)

    def called_from(self, main: int) -> list[int]:
        """Kinds in the order of their calls, each before those it calls."""
        finished: list[int] = []

        def visit(kind: int) -> None:
            if kind in finished:
                return
            # Backwards, because the whole order is turned round at the end.
            for do in reversed(self.kinds[kind].code):
                if do.op == "call":
                    visit(do.calls)
            finished.append(kind)

        visit(main)
        return finished[::-1]


def _place(bank: list[Number], value: Number) -> int:
    """Where a number stands in a bank; it is put behind the others if it is not there."""
    if value not in bank:
        bank.append(value)
    return bank.index(value)
