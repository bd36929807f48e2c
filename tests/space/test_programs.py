"""Programs as a space: the mutations of Primer, tidy members, and where a search begins."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from formwright.arch import (
    Attention,
    FeedForward,
    Frame,
    Instruction,
    LanguageModel,
    LayerNorm,
    Program,
    Residual,
    Stack,
    Subprogram,
    arch_id,
    transformer_program,
)
from formwright.arch.counting import count
from formwright.arch.graph.tidy_program import tidy_program
from formwright.arch.style import style
from formwright.errors import FormatError, SpecError
from formwright.space import Limit, space_data, space_from_data
from formwright.space.genes import frozen, gene_data
from formwright.space.programs import (
    MUTATIONS,
    ProgramSpace,
    change_bank,
    change_field,
    delete,
    delete_and_insert,
    insert,
    mutated,
    primer,
    swap,
)
from formwright.testing import SpaceTestCase

FRAME = Frame(30, 8, LanguageModel())
WIDTH = 16
SEED = transformer_program(WIDTH, 2, 4 * WIDTH)
Mutation = Callable[[Random, Program], Program]


def small(family: str = "gpt2", **options: int) -> ProgramSpace:
    return primer(style(family, WIDTH), FRAME, **options)


class TestEncoderOfPrograms(SpaceTestCase):
    def made(self) -> ProgramSpace:
        return small("lra")


def instructions(program: Program) -> list[Instruction]:
    return [do for sub in program.subprograms for do in sub.code]


def fields(do: Instruction) -> tuple[object, ...]:
    """All but what it reads."""
    return do.op, do.constant, do.dim, do.branches, do.calls


# --- mutations ---------------------------------------------------------------------------


def many(mutation: Mutation) -> list[Program]:
    rng = Random(0)
    return [mutation(rng, SEED) for _ in range(60)]


@pytest.mark.parametrize(("mutation", "more"), [(delete, -1), (insert, 1), (delete_and_insert, 0)])
def test_deleting_and_inserting_change_the_length_of_the_code(
    mutation: Mutation, more: int
) -> None:
    for child in many(mutation):
        assert len(instructions(child)) == len(instructions(SEED)) + more


def test_who_read_a_deleted_instruction_reads_what_it_read() -> None:
    square, negate, root = Instruction("square", 0), Instruction("c_mul", 1), Instruction("exp", 2)
    program = Program((Subprogram((square, negate, root)),), (-1.0,))
    left = {delete(Random(seed), program).subprograms[0].code for seed in range(20)}
    assert left == {
        (negate.replace(first=0), root.replace(first=1)),
        (square, root.replace(first=1)),
        (square, negate),
    }


def test_an_inserted_instruction_moves_what_comes_behind_it() -> None:
    words = ["square", "exp", "sign"]
    code = tuple(Instruction(word, value) for value, word in enumerate(words))
    program = Program((Subprogram(code),), (1.0,), (8,))
    read = set()
    for seed in range(120):
        child = insert(Random(seed), program).subprograms[0].code
        (place,) = [at for at, do in enumerate(child) if do.op not in words] or [None]
        if place is None:  # one of the same words
            continue
        old = [*range(place), *range(place + 1, 4)]
        assert [child[at].op for at in old] == words
        for before, at in zip([-1, *old], old, strict=False):
            if at == place + 1 and child[at].first == 1 + place:
                read.add("the new one")
            else:
                assert child[at].first == 1 + before
                read.add("as before" if at == place + 1 else "further on")
    assert read == {"the new one", "as before", "further on"}


def test_a_changed_field_is_one_field_of_one_instruction() -> None:
    names = ("op", "first", "second", "constant", "dim", "branches", "calls")
    seen: Counter[str] = Counter()
    for child in many(change_field):
        pairs = zip(instructions(SEED), instructions(child), strict=True)
        found = [n for a, b in pairs for n in names if getattr(a, n) != getattr(b, n)]
        assert len(found) <= 1
        seen.update(found)
    assert set(seen) == set(names)


def test_swapped_instructions_leave_each_other_what_they_read() -> None:
    for child in many(swap):
        old, new = instructions(SEED), instructions(child)
        assert [(do.first, do.second) for do in old] == [(do.first, do.second) for do in new]
        assert Counter(map(fields, old)) == Counter(map(fields, new))
        assert sum(fields(a) != fields(b) for a, b in zip(old, new, strict=True)) in (0, 2)


def test_a_changed_bank_is_one_number_for_all_who_use_it() -> None:
    changed: Counter[str] = Counter()
    for child in many(change_bank):
        assert child.subprograms == SEED.subprograms
        for name in ("constants", "dims"):
            pairs = zip(getattr(SEED, name), getattr(child, name), strict=True)
            changed[name] += sum(a != b for a, b in pairs)
    assert changed["constants"] > 10 < changed["dims"]
    assert sum(changed.values()) <= 60


def test_mutations_keep_to_what_is_legal_and_reach_all_kinds_of_change() -> None:
    rng, found = Random(0), set()
    assert len(MUTATIONS) == 6
    for _ in range(150):
        child = tidy_program(mutated(rng, SEED, WIDTH))
        found.add(len(instructions(child)) - len(instructions(tidy_program(SEED))))
    assert {-1, 0, 1} <= found


def test_a_program_of_nothing_can_grow_again() -> None:
    space = small()
    empty = {"program": gene_data(Program((Subprogram(()),)))}
    for seed in range(10):
        grown = space.resolve(space.change(empty, Random(seed))).check().layers.layers[0]
        assert instructions(grown)


# --- members -----------------------------------------------------------------------------


def test_members_are_tidy_and_children_are_other_graphs() -> None:
    space, rng = small(), Random(0)
    for _ in range(30):
        parent = space.draw(rng)
        child = space.change(parent, rng)
        for decisions in (parent, child):
            program = space.resolve(decisions).layers.layers[0]
            assert tidy_program(program) == program
        assert arch_id(space.resolve(child)) != arch_id(space.resolve(parent))


def test_decisions_are_plain_data_with_tuples() -> None:
    assert frozen({"a": [1, [2, {"b": []}]]}) == {"a": (1, (2, {"b": ()}))}
    drawn = small().draw(Random(0))["program"]
    assert (type(drawn), type(drawn["subprograms"])) == (dict, tuple)


def test_a_rate_is_a_share_of_the_instructions() -> None:
    space, rng = small(), Random(0)
    parent = space.seeds()["transformer"]

    def told(rate: float | None) -> int:
        children = [space.change(parent, rng, rate) for _ in range(20)]
        before = Counter(map(fields, instructions(space.resolve(parent).layers.layers[0])))
        after = (
            Counter(map(fields, instructions(space.resolve(c).layers.layers[0]))) for c in children
        )
        return sum(((found - before) + (before - found)).total() for found in after)

    assert told(None) < told(0.2)


def test_numbers_of_the_bank_are_written_in_three_digits() -> None:
    space, rng = small(), Random(0)
    known = set(SEED.constants)
    drawn = (space.resolve(space.draw(rng)).layers.layers[0].constants for _ in range(40))
    new = {number for constants in drawn for number in constants} - known
    assert new
    assert all(number == float(f"{number:.3g}") for number in new)


def test_limits_are_kept() -> None:
    space, rng = small().limited(Limit("params", high=14_000)), Random(0)
    assert any(space.violation(space.draw(rng)) > 0 for _ in range(30))
    found = space.sample(rng)
    for _ in range(10):
        found = space.mutate(found, rng)
        assert count(space.resolve(found)).params <= 14_000


# --- words -------------------------------------------------------------------------------


def test_changes_are_said_as_the_instructions_that_came_and_went() -> None:
    space = small()
    seeds = space.seeds()
    assert space.explain(seeds["transformer"], seeds["primer-ez"]) == "inserted depthwise3, square"
    assert space.explain(seeds["primer-ez"], seeds["transformer"]) == "deleted depthwise3, square"

    def program(*code: Instruction) -> dict[str, object]:
        return {"program": gene_data(Program((Subprogram(code),), (0.5, 2.0), (8, 16)))}

    plain = program(Instruction("c_mul", 0), Instruction("conv1", 1))
    other = program(Instruction("c_mul", 0, constant=1), Instruction("conv1", 1))
    wide = program(Instruction("c_mul", 0), Instruction("conv1", 1, dim=1, branches=4))
    turned = program(Instruction("c_mul", 0), Instruction("conv1", 0))
    assert space.explain(plain, other) == "c_mul 0.5 -> c_mul 2"
    assert space.explain(plain, wide) == "conv1 to 8 -> conv1 to 16 in 4 branches"
    long = program(*(Instruction("exp", at) for at in range(7)))
    assert space.explain(plain, long) == (
        "deleted c_mul 0.5, conv1 to 8; inserted exp, exp, exp, exp and 3 more"
    )
    assert space.explain(plain, turned) == "the same instructions on other values"


# --- where it begins ---------------------------------------------------------------------


def test_the_seed_counts_what_the_plain_transformer_counts() -> None:
    space = primer()
    norm = LayerNorm(eps=1e-6)
    attention = Residual(Attention(8, bias=False), norm=norm)
    layers = (attention, Residual(FeedForward(2048, "relu"), norm=norm)) * 6
    plain = count(space.base.replace(layers=Stack(layers)))
    ours = count(space.resolve(space.seeds()["transformer"]))
    assert (ours.params, ours.flops) == (plain.params, plain.flops)
    ez = count(space.resolve(space.seeds()["primer-ez"]))
    assert ez.params - ours.params == 6 * 9 * 512  # three kernels of three taps a layer


def test_seeds_are_the_published_programs_at_the_width_of_the_family() -> None:
    for width in (16, 32, 64, 128, 512, 768):
        space = primer(style("gpt2", width), FRAME, layers=1)
        assert list(space.seeds()) == ["transformer", "primer-ez", "primer"]
        for decisions in space.seeds().values():
            assert space.resolve(decisions).check().backbone.width == width
    assert len(small(layers=3).base.layers.layers) == 3


# --- what is refused ---------------------------------------------------------------------


def test_wrong_decisions_and_data_are_refused_in_one_sentence() -> None:
    space = small()
    with pytest.raises(SpecError, match="'program' is missing"):
        space.resolve({})
    with pytest.raises(SpecError, match="must be the data of a program, not 3"):
        space.resolve({"program": 3})
    with pytest.raises(FormatError, match="has no field 'steps'"):
        space.resolve({"program": {"node": "program", "steps": ()}})
    with pytest.raises(FormatError, match='"base" must hold'):
        space_from_data({**space_data(space), "base": None})


def test_a_space_of_one_stack_cannot_translate() -> None:
    with pytest.raises(SpecError, match=r"'primer' has one stack .* use 'evolved' or 'open'"):
        small("translator")
