"""Random legal programs: the published ones, changed here and there as a search would.

As with ``random_architecture`` a ``Random`` is all it needs, so that failing cases shrink.
"""

from collections.abc import Callable
from random import Random
from typing import get_args

from formwright.arch.graph.instruction import BRANCHES, RELATIVE_DIMS, Instruction, Word
from formwright.arch.graph.program import Program, Subprogram
from formwright.arch.graph.programs import primer_ez_program, primer_program, transformer_program
from formwright.arch.graph.unfold import straight_line
from formwright.errors import ShapeError

_TRIES = 30
_FEW_BRANCHES = tuple(b for b in BRANCHES if b <= 4)  # small programs are quick to run


def random_program(rng: Random, width: int, changes: int = 6) -> Program:
    """A legal program for a stream of ``width`` channels (a multiple of 8)."""
    seeds = (transformer_program, primer_ez_program, primer_program, _of_scores, _of_scores)
    program = rng.choice(seeds)(width, 2, rng.choice((2, 4)) * width)
    for _ in range(rng.randint(0, changes)):
        program = _changed(rng, program, width)
    return program


def _of_scores(width: int, heads: int, inner: int) -> Program:
    """Little but scores, which the published programs soon leave again."""
    main = (Instruction("call", 0, 0, calls=1), Instruction("conv1", 1))
    leaf = (
        Instruction("mat_mul_transposed", 0, 1, branches=heads),
        Instruction("c_mul", 2),
        Instruction("mat_mul_transposed", 3, 2),
        Instruction("mat_mul", 4, 3),
        Instruction("mat_mul", 5, 1),
    )
    # without the products of scores a text can be read piece by piece, too
    short = (leaf[0], leaf[1], Instruction("mat_mul", 3, 1))
    code = leaf if inner > 2 * width else short
    return Program((Subprogram(main), Subprogram(code, 2)), (0.5,), (8,))


def _changed(rng: Random, program: Program, width: int) -> Program:
    """The program with one change that leaves it legal; itself if none is found."""
    edits: tuple[Callable[[Random, Program], Program], ...] = (
        _inserted,
        _inserted,
        _field_changed,
        _field_changed,
        _deleted,
        _swapped,
        _bank_changed,
    )
    for _ in range(_TRIES):
        child = rng.choice(edits)(rng, program)
        try:
            straight_line(child, width)
        except ShapeError:
            continue
        return child
    return program


def _instruction(rng: Random, program: Program, index: int, place: int) -> Instruction:
    """Any instruction whose numbers point at something."""
    known = program.subprograms[index].inputs + place
    later = range(index + 1, len(program.subprograms))
    words = [word for word in get_args(Word) if later or word != "call"]
    return Instruction(
        rng.choice(words),
        rng.randrange(known),
        rng.randrange(known),
        rng.randrange(len(program.constants)),
        rng.randrange(len(program.dims)),
        rng.choice((1, 1, 1, *_FEW_BRANCHES)),
        rng.choice(later) if later else 0,
    )


def _with_code(program: Program, index: int, code: list[Instruction]) -> Program:
    subprograms = list(program.subprograms)
    subprograms[index] = subprograms[index].replace(code=tuple(code))
    return program.replace(subprograms=tuple(subprograms))


def _moved(do: Instruction, where: Callable[[int], int]) -> Instruction:
    """An instruction whose operands have got new numbers."""
    return do.replace(first=where(do.first), second=where(do.second))


def _inserted(rng: Random, program: Program) -> Program:
    """One more instruction, read by the next one in place of its first input."""
    index = rng.randrange(len(program.subprograms))
    sub = program.subprograms[index]
    place = rng.randint(0, len(sub.code))
    new = sub.inputs + place
    code = [*sub.code[:place], _instruction(rng, program, index, place)]
    for do in sub.code[place:]:
        code.append(_moved(do, lambda v: v + (v >= new)))
    if place + 1 < len(code) and rng.random() < 0.8:
        code[place + 1] = code[place + 1].replace(first=new)
    return _with_code(program, index, code)


def _deleted(rng: Random, program: Program) -> Program:
    """One instruction less; who read its result reads its first input."""
    index = rng.randrange(len(program.subprograms))
    sub = program.subprograms[index]
    if not sub.code:
        return program
    place = rng.randrange(len(sub.code))
    gone, instead = sub.inputs + place, sub.code[place].first

    def where(value: int) -> int:
        return instead if value == gone else value - (value > gone)

    code = [*sub.code[:place], *(_moved(do, where) for do in sub.code[place + 1 :])]
    return _with_code(program, index, code)


def _field_changed(rng: Random, program: Program) -> Program:
    """Another value in one field of one instruction."""
    index = rng.randrange(len(program.subprograms))
    code = list(program.subprograms[index].code)
    if not code:
        return program
    place = rng.randrange(len(code))
    field = rng.choice(("op", "first", "second", "constant", "dim", "branches", "calls"))
    other = _instruction(rng, program, index, place)
    code[place] = code[place].replace(**{field: getattr(other, field)})
    return _with_code(program, index, code)


def _swapped(rng: Random, program: Program) -> Program:
    """Two neighbours change places; what they read stays where it was."""
    index = rng.randrange(len(program.subprograms))
    code = list(program.subprograms[index].code)
    if len(code) < 2:
        return program
    place = rng.randrange(len(code) - 1)
    code[place], code[place + 1] = code[place + 1], code[place]
    return _with_code(program, index, code)


def _bank_changed(rng: Random, program: Program) -> Program:
    """Another number in a bank, for all that use it."""
    if rng.random() < 0.5:
        constants = list(program.constants)
        place = rng.randrange(len(constants))
        constants[place] = rng.choice((0.0, 1.0, -1.12, 0.3, constants[place] * 2))
        return program.replace(constants=tuple(constants))
    dims = list(program.dims)
    dims[rng.randrange(len(dims))] = rng.choice(RELATIVE_DIMS[:6])
    return program.replace(dims=tuple(dims))
