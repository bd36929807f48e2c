"""Random legal programs: the published ones, changed here and there as a search would.

As with ``random_architecture`` a ``Random`` is all it needs, so that failing cases shrink.
"""

from random import Random

from formwright.arch.graph.instruction import Instruction
from formwright.arch.graph.program import Program, Subprogram
from formwright.space.programs import SEEDS, mutated


def random_program(rng: Random, width: int, changes: int = 6) -> Program:
    """A legal program for a stream of ``width`` channels (a multiple of 8), seldom a tidy one."""
    seeds = (*SEEDS.values(), _of_scores, _of_scores)
    program = rng.choice(seeds)(width, 2, rng.choice((2, 4)) * width)
    for _ in range(rng.randint(0, changes)):
        program = mutated(rng, program, width)
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
