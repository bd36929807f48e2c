"""The space of Primer: one layer as a program of primitives, repeated, and how programs mutate.

Paper: So et al. 2021, https://arxiv.org/abs/2109.08668. A search begins with the Transformer and
makes one small change at a time; what does not fit is drawn again.
Differs from the paper: a member is kept in its tidy form, so that equal graphs are one member.
What has no effect is therefore not passed on, and an instruction may bring a number of its own
into the banks. Members drawn at random are the Transformer after a few changes.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import get_args

from formwright.arch.architecture import Architecture, Decoder
from formwright.arch.frame import Embedding, Frame, LanguageModel
from formwright.arch.graph.instruction import BRANCHES, RELATIVE_DIMS, USES, Instruction, Word
from formwright.arch.graph.program import Program
from formwright.arch.graph.programs import primer_ez_program, primer_program, transformer_program
from formwright.arch.graph.tidy_program import tidy_program
from formwright.arch.graph.unfold import straight_line
from formwright.arch.layer import LayerNorm, Stack
from formwright.arch.style import Style, usual_heads
from formwright.errors import ShapeError
from formwright.space.functions import program_print
from formwright.space.genes import GeneSpace, gene_data, gene_of, taken
from formwright.space.part import Decisions
from formwright.space.registry import published_space, space_kind
from formwright.space.space import Comparable

PAPER = "https://arxiv.org/abs/2109.08668"
FRAME = Frame(vocab=32_128, length=64, head=LanguageModel())
SEEDS = {
    "transformer": transformer_program,
    "primer-ez": primer_ez_program,
    "primer": primer_program,
}
_CHANGES = 4  # at most, from the Transformer to a member drawn at random
_TRIES = 30  # changes that may not fit
_TOLD = 4  # instructions named in words

Mutation = Callable[[Random, Program], Program]


@published_space("primer", PAPER)
def primer(
    family: Style | None = None, frame: Frame = FRAME, layers: int | None = None
) -> "ProgramSpace":
    """Primer: language models of one layer, written as a program of primitives.

    Args:
        family: Whose backbone it is; a decoder of 512 channels when not given.
        frame: Vocabulary, length and head, from the task.
        layers: How often the program is repeated; 6, or 4 in another family.
    """
    plain = Decoder(512, Embedding(scale=True), norm=LayerNorm(eps=1e-6), init="t5")
    backbone = plain if family is None else family.backbone
    program = transformer_program(*_sizes(backbone.width))
    stack = Stack((program,) * (layers or (6 if family is None else 4)))
    return ProgramSpace(Architecture(stack, backbone, frame=frame), name="primer")


@space_kind("programs")
class ProgramSpace(GeneSpace, Comparable):
    """Models of one program, repeated; the decision is the tidy program."""

    def draw(self, rng: Random) -> Decisions:
        found = _decided(tidy_program(self._program(self.base)))
        for _ in range(rng.randint(1, _CHANGES)):
            found = self.change(found, rng)
        return found

    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        before = tidy_program(self._program(self.resolve(parent)))
        length = sum(len(sub.code) for sub in before.subprograms)
        times = 1 if rate is None else max(1, sum(rng.random() < rate for _ in range(length)))
        child = before
        while child == before:
            for _ in range(times):
                child = tidy_program(mutated(rng, child, self.base.backbone.width))
        return _decided(child)

    def resolve(self, decisions: Decisions) -> Architecture:
        program = gene_of(taken(decisions, "program"), "program", Program)
        return self.base.replace(layers=Stack((program,) * len(self.base.layers.layers)))

    def fingerprint(self, decisions: Decisions) -> str:
        program = gene_of(taken(decisions, "program"), "program", Program)
        ((_, _, site),) = self.base.stacks()
        return program_print(program, site.width, causal=site.causal)

    def explain(self, parent: Decisions, child: Decisions) -> str:
        old, young = (self._program(self.resolve(found)) for found in (parent, child))
        before, after = _words(old), _words(young)
        gone, new = list((before - after).elements()), list((after - before).elements())
        if len(gone) == len(new) == 1:
            return f"{gone[0]} -> {new[0]}"
        told = (("deleted", gone), ("inserted", new))
        said = "; ".join(f"{verb} {_listed(words)}" for verb, words in told if words)
        return said or ("the same instructions on other values" if old != young else "")

    def without(self, decisions: Decisions, seed: Decisions) -> list[tuple[Decisions, str]]:
        """A program less one of the instructions that the seed has not, each in turn, with words.

        What no longer fits, or computes the same as another, is left out.
        """
        program, plain = (self._program(self.resolve(found)) for found in (decisions, seed))
        more = _words(program) - _words(plain)
        found: dict[str, tuple[Decisions, str]] = {}
        for index, sub in enumerate(program.subprograms):
            for place, do in enumerate(sub.code):
                if _said(program, do) in more:
                    less = tidy_program(_deleted(program, index, place))
                    if self._fits(less) and less != program:
                        child = _decided(less)
                        words = f"without {_said(program, do)}"
                        found.setdefault(self.fingerprint(child), (child, words))
        return list(found.values())

    def _fits(self, program: Program) -> bool:
        try:
            straight_line(program, self.base.backbone.width)
        except ShapeError:
            return False
        return True

    def seeds(self) -> dict[str, Decisions]:
        """What a search may begin with, and what the paper's search found."""
        sizes = _sizes(self.base.backbone.width)
        return {name: _decided(tidy_program(make(*sizes))) for name, make in SEEDS.items()}

    def _program(self, member: Architecture) -> Program:
        program = member.layers.layers[0]
        assert isinstance(program, Program)
        return program


def mutated(rng: Random, program: Program, width: int) -> Program:
    """A program with one change that leaves it legal, or itself where none was found.

    It is not tidy: banks have a number more than they need, and instructions may do nothing.
    """
    stocked = program.replace(
        constants=(*program.constants, _constant(rng, 1.0)),
        dims=(*program.dims, rng.choice(RELATIVE_DIMS)),
    )
    written = any(sub.code for sub in program.subprograms)
    for _ in range(_TRIES):
        child = rng.choice(MUTATIONS if written else (insert,))(rng, stocked)
        try:
            straight_line(child, width)
        except ShapeError:
            continue
        return child
    return program


# --- the mutations of the paper ----------------------------------------------------------


def delete(rng: Random, program: Program) -> Program:
    """One instruction less; who read its result reads its first input."""
    return _deleted(program, *_anywhere(rng, program))


def insert(rng: Random, program: Program) -> Program:
    """One instruction more, mostly read by the next one in place of its first input."""
    index, place = _anywhere(rng, program, beside=1)
    sub = program.subprograms[index]
    new = sub.inputs + place
    later = [_moved(do, lambda value: value + (value >= new)) for do in sub.code[place:]]
    if later and rng.random() < 0.8:
        later[0] = later[0].replace(first=new)
    code = [*sub.code[:place], _instruction(rng, program, index, place), *later]
    return _with_code(program, index, code)


def delete_and_insert(rng: Random, program: Program) -> Program:
    """One instruction less and another one more, anywhere."""
    return insert(rng, delete(rng, program))


def change_field(rng: Random, program: Program) -> Program:
    """Another value in one field of one instruction."""
    index, place = _anywhere(rng, program)
    field = rng.choice(("op", "first", "second", "constant", "dim", "branches", "calls"))
    value = getattr(_instruction(rng, program, index, place), field)
    code = list(program.subprograms[index].code)
    code[place] = code[place].replace(**{field: value})
    return _with_code(program, index, code)


def swap(rng: Random, program: Program) -> Program:
    """Two instructions of a subprogram change places; each reads what the other one read."""
    index, one = _anywhere(rng, program)
    code = list(program.subprograms[index].code)
    two = rng.randrange(len(code))
    first, second = code[one], code[two]
    code[one] = second.replace(first=first.first, second=first.second)
    code[two] = first.replace(first=second.first, second=second.second)
    return _with_code(program, index, code)


def change_bank(rng: Random, program: Program) -> Program:
    """Another number in a bank, for all instructions that use it."""
    constants, dims = list(program.constants), list(program.dims)
    if rng.random() < 0.5:
        place = rng.randrange(len(constants))
        constants[place] = _constant(rng, constants[place])
    else:
        dims[rng.randrange(len(dims))] = rng.choice(RELATIVE_DIMS)
    return program.replace(constants=tuple(constants), dims=tuple(dims))


MUTATIONS: tuple[Mutation, ...] = (
    delete,
    insert,
    delete_and_insert,
    change_field,
    swap,
    change_bank,
)


# --- what they are made of ---------------------------------------------------------------


def _deleted(program: Program, index: int, place: int) -> Program:
    """The program without an instruction of a subprogram."""
    sub = program.subprograms[index]
    gone, instead = sub.inputs + place, sub.code[place].first

    def where(value: int) -> int:
        return instead if value == gone else value - (value > gone)

    later = (_moved(do, where) for do in sub.code[place + 1 :])
    return _with_code(program, index, [*sub.code[:place], *later])


def _sizes(width: int) -> tuple[int, int, int]:
    """Width, heads and inner width of the Transformer that a search begins with."""
    usual = usual_heads(width)
    return width, min(BRANCHES, key=lambda heads: (abs(heads - usual), heads)), 4 * width


def _decided(program: Program) -> Decisions:
    return {"program": gene_data(program)}


def _constant(rng: Random, old: float) -> float:
    """The paper's c 10^X + Y with normal X and Y, in three digits and not beyond a million."""
    x, y = (max(-3.0, min(3.0, rng.normalvariate(0, 1))) for _ in range(2))
    return float(f"{max(-1e6, min(1e6, old * 10**x + y)):.3g}")


def _anywhere(rng: Random, program: Program, beside: int = 0) -> tuple[int, int]:
    """A subprogram and the place of an instruction in it, or so many places behind the last."""
    lengths = [len(sub.code) + beside for sub in program.subprograms]
    return rng.choice([(i, at) for i, length in enumerate(lengths) for at in range(length)])


def _instruction(rng: Random, program: Program, index: int, place: int) -> Instruction:
    """Any instruction whose numbers point at something."""
    known = program.subprograms[index].inputs + place
    later = range(index + 1, len(program.subprograms))
    return Instruction(
        rng.choice([word for word in get_args(Word) if later or word != "call"]),
        rng.randrange(known),
        rng.randrange(known),
        rng.randrange(len(program.constants)),
        rng.randrange(len(program.dims)),
        rng.choice((1, 1, 1, *BRANCHES)),
        rng.choice(later) if later else 0,
    )


def _with_code(program: Program, index: int, code: list[Instruction]) -> Program:
    subprograms = list(program.subprograms)
    subprograms[index] = subprograms[index].replace(code=tuple(code))
    return program.replace(subprograms=tuple(subprograms))


def _moved(do: Instruction, where: Callable[[int], int]) -> Instruction:
    """An instruction whose operands have got new numbers."""
    return do.replace(first=where(do.first), second=where(do.second))


def _words(program: Program) -> Counter[str]:
    """Every instruction in words, with the numbers of the banks in place."""
    return Counter(_said(program, do) for sub in program.subprograms for do in sub.code)


def _listed(words: list[str]) -> str:
    more = len(words) - _TOLD
    return ", ".join(words[:_TOLD]) + (f" and {more} more" if more > 0 else "")


def _said(program: Program, do: Instruction) -> str:
    use = USES[do.op]
    said = f"{do.op} {program.constants[do.constant]:g}" if use.constant else do.op
    said += f" to {program.dims[do.dim]}" if use.dim else ""
    return said + (f" in {do.branches} branches" if do.branches > 1 else "")
