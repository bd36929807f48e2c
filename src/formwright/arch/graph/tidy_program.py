"""The one form of a program that stands for all ways of writing the same graph.

What is not needed goes: instructions without effect, subprograms that nobody calls, inputs that
nobody reads, fields that a word does not look at, calls of subprograms that do nothing. What is
left stands in the order in which the result asks for it; equal subprograms become one; the banks
hold each used number once, in order of size. A call written out in place of a subprogram remains
a different program, because it is changed differently by a search.
"""

from dataclasses import dataclass, field

from formwright.arch.graph.instruction import USES, Instruction
from formwright.arch.graph.program import Program, Subprogram
from formwright.arch.graph.unfold import check_structure
from formwright.arch.node import Open


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
    kinds: list[Subprogram] = field(default_factory=list)  # calls hold kinds, banks are sorted
    done: dict[int, _Tidied] = field(default_factory=dict)  # by the place it was written at

    def __post_init__(self) -> None:
        used = [do for sub in self.program.subprograms for do in sub.code]
        self.constants = sorted(
            {0.0 + self.program.constants[do.constant] for do in used if USES[do.op].constant}
        )
        self.dims = sorted({self.program.dims[do.dim] for do in used if USES[do.op].dim})

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
        use = USES[do.op]
        return Instruction(
            do.op,
            operands[0],
            operands[1] if len(operands) == 2 else 0,
            constant=self.constants.index(self.program.constants[do.constant])
            if use.constant
            else 0,
            dim=self.dims.index(self.program.dims[do.dim]) if use.dim else 0,
            branches=do.branches,
            calls=self.done[do.calls].kind if do.op == "call" else 0,
        )

    def result(self) -> Program:
        """The tidy subprograms in the order in which they are called."""
        order = self.called_from(self.done[0].kind)
        subprograms = [
            sub.replace(
                code=tuple(
                    do.replace(calls=order.index(do.calls)) if do.op == "call" else do
                    for do in sub.code
                )
            )
            for sub in (self.kinds[kind] for kind in order)
        ]
        return _without_unused(
            Program(
                tuple(subprograms), tuple(self.constants), tuple(self.dims), self.program.stream
            )
        )

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


def _without_unused(program: Program) -> Program:
    """The program without bank entries that only instructions now gone did use."""
    code = [do for sub in program.subprograms for do in sub.code]
    constants = sorted({do.constant for do in code if USES[do.op].constant})
    dims = sorted({do.dim for do in code if USES[do.op].dim})

    def moved(do: Instruction) -> Instruction:
        use = USES[do.op]
        return do.replace(
            constant=constants.index(do.constant) if use.constant else 0,
            dim=dims.index(do.dim) if use.dim else 0,
        )

    return program.replace(
        subprograms=tuple(
            sub.replace(code=tuple(moved(do) for do in sub.code)) for sub in program.subprograms
        ),
        constants=tuple(program.constants[i] for i in constants),
        dims=tuple(program.dims[i] for i in dims),
    )
