"""Programs as data: read and written, checked before they are built, one id for one graph."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formwright.arch import (
    Architecture,
    Decoder,
    Instruction,
    Load,
    Program,
    Site,
    Stack,
    Subprogram,
    arch_id,
    canonical,
    from_json,
    notation,
    parse,
    primer_ez_program,
    primer_program,
    to_json,
    transformer_program,
)
from formwright.errors import NotationError, ShapeError
from formwright.testing.programs import random_program

WIDTH = 16
PUBLISHED = (transformer_program, primer_ez_program, primer_program)


def do(op: str, first: int, second: int = 0, **fields: int) -> Instruction:
    return Instruction(op, first, second, **fields)  # type: ignore[arg-type]


def program(*subprograms: Subprogram, **banks: tuple[float, ...]) -> Program:
    return Program(subprograms, **banks)  # type: ignore[arg-type]


def alone(layer: Program) -> Architecture:
    return Architecture(Stack((layer,)), Decoder(WIDTH))


def tidy(layer: Program) -> Program:
    return canonical(alone(layer)).layers.layers[0]  # type: ignore[return-value]


def given_program(test: Callable[[Program, Random], None]) -> Callable[[], None]:
    @settings(max_examples=150, deadline=None)
    @given(st.randoms(use_true_random=False))
    def run(rng: Random) -> None:
        test(random_program(rng, WIDTH, changes=12), rng)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# --- reading and writing ---------------------------------------------------------------------


@pytest.mark.parametrize("make", PUBLISHED)
def test_published_programs_survive_notation_and_json(make: Callable[..., Program]) -> None:
    arch = alone(make(WIDTH, 4, 64))
    assert parse(notation(arch)) == arch
    assert from_json(to_json(arch)) == arch


@given_program
def test_random_programs_survive_notation_and_json(layer: Program, rng: Random) -> None:
    arch = alone(layer)
    assert parse(notation(arch)) == arch
    assert from_json(to_json(arch)) == arch


def test_a_program_can_be_written_by_hand() -> None:
    text = (
        "k where k=program([sub([do(call, 0, calls=1), do(multiply, 0, second=1)]), "
        "sub([do(max, 0), do(square, 1)])], constants=[0]) in decoder(16)"
    )
    layer = parse(text).layers.layers[0]
    assert layer == program(
        Subprogram((do("call", 0, calls=1), do("multiply", 0, 1))),
        Subprogram((do("max", 0), do("square", 1))),
        constants=(0.0,),
    )


def test_the_seed_has_the_ten_subprograms_of_the_paper() -> None:
    seed = transformer_program(WIDTH, 4, 64)
    assert len(seed.subprograms) == 10
    assert tidy(seed).subprograms != ()
    assert len(tidy(seed).subprograms) == 10  # all different, all called


# --- what is refused -------------------------------------------------------------------------


def refused(layer: Program, message: str, width: int = WIDTH) -> None:
    with pytest.raises(ShapeError, match=message):
        layer.out_width(Site(width=width, causal=True))


@pytest.mark.parametrize("callee", [0, 1, 5])
def test_calls_only_go_forward(callee: int) -> None:
    leaf = Subprogram((do("call", 0, calls=callee),))
    layer = program(Subprogram((do("call", 0, calls=1),)), leaf, Subprogram((do("abs", 0),)))
    refused(layer, rf"subprogram 1, instruction 0 \(call\): calls subprogram {callee}")


def test_values_must_exist_before_they_are_read() -> None:
    layer = program(Subprogram((do("abs", 0), do("add", 0, 2))))
    refused(layer, r"subprogram 0, instruction 1 \(add\): reads value 2, but only 0 to 1 exist")


def test_branches_dims_and_bank_places_are_checked() -> None:
    refused(program(Subprogram((do("abs", 0, branches=3),))), "3 branches; allowed are 1, 2, 4")
    refused(program(Subprogram((do("conv1", 0),))), r"\(conv1\): uses dim 0, but the bank dims")
    refused(program(Subprogram((do("c_mul", 0, constant=1),)), constants=(1.0,)), "constant 1")
    refused(program(Subprogram((do("conv1", 0),)), dims=(3,)), "holds 3; allowed are 1, 2, 4, 8")
    refused(program(), "0 subprograms")
    refused(program(Subprogram((), inputs=2)), "inputs=1")
    refused(program(Subprogram((do("abs", 0),))), "stream=8", width=12)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ((do("mat_mul", 0, 0),), r"instruction 0 \(mat_mul\): multiplies rows with rows"),
        ((do("mask", 0),), r"instruction 0 \(mask\): hides scores, but is given rows"),
        (
            (do("mat_mul_transposed", 0, 0), do("scale", 1)),
            r"instruction 1 \(scale\): has weights for channels",
        ),
        ((do("mat_mul_transposed", 0, 0),), "ends with scores"),
        (
            (do("mat_mul_transposed", 0, 0), do("add", 1, 0)),
            r"instruction 1 \(add\): puts rows of 16 channels beside scores of 1 maps",
        ),
        (
            (
                do("mat_mul_transposed", 0, 0, branches=2),
                do("mat_mul_transposed", 0, 0, branches=4),
                do("add", 1, 2),
            ),
            r"instruction 2 \(add\): puts 2 maps of scores beside 4",
        ),
        (
            (do("conv1", 0), do("mat_mul_transposed", 1, 1, branches=8)),
            r"instruction 1 \(mat_mul_transposed\): cannot split 2 channels",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused(
    code: tuple[Instruction, ...], message: str
) -> None:
    refused(program(Subprogram(code), dims=(1,)), message)


def test_the_error_names_the_subprogram_that_was_called() -> None:
    main = Subprogram((do("call", 0, calls=1),))
    refused(program(main, Subprogram((do("abs", 0), do("mask", 1)))), "subprogram 1, instruction 1")
    with pytest.raises(NotationError, match="subprogram 0, instruction 0"):
        parse("k where k=program([sub([do(mask, 0)])]) in decoder(16)")


def test_a_program_that_explodes_is_refused_at_once() -> None:
    doubling = [Subprogram((do("call", 0, calls=i), do("call", 1, calls=i))) for i in range(1, 40)]
    refused(program(*doubling, Subprogram((do("abs", 0),))), "longer than 4096 steps")
    wider = [Subprogram((do("call", 0, calls=i, branches=16),)) for i in range(1, 20)]
    refused(program(*wider, Subprogram((do("shift", 0),))), "wider than")


def test_heads_and_sizes_that_programs_cannot_say_are_refused() -> None:
    with pytest.raises(ShapeError, match="5 heads"):
        transformer_program(640, 5, 2560)
    with pytest.raises(ShapeError, match="inner width of 40"):
        transformer_program(32, 4, 40)


# --- one id for one graph --------------------------------------------------------------------


def same_graph(one: Program, other: Program) -> None:
    assert one != other
    assert arch_id(alone(one)) == arch_id(alone(other))


NORM = Subprogram((do("reduce_mean", 0), do("difference", 0, 1)))


def test_dead_instructions_do_not_change_the_id() -> None:
    dead = Subprogram((do("exp", 0), do("reduce_mean", 0), do("conv1", 1), do("difference", 0, 2)))
    same_graph(program(NORM), program(dead, dims=(8,)))
    assert tidy(program(dead, dims=(8,))) == program(NORM)


def test_the_order_of_instructions_does_not_change_the_id() -> None:
    code = (do("exp", 0), do("abs", 0), do("difference", 1, 2))
    turned = (do("abs", 0), do("exp", 0), do("difference", 2, 1))
    same_graph(program(Subprogram(code)), program(Subprogram(turned)))


def test_fields_that_a_word_ignores_do_not_change_the_id() -> None:
    same_graph(
        program(NORM),
        program(Subprogram((do("reduce_mean", 0, dim=3, calls=2), do("difference", 0, 1)))),
    )


def test_banks_do_not_change_the_id() -> None:
    code = Subprogram((do("c_mul", 0), do("conv1", 1)))
    moved = Subprogram((do("c_mul", 0, constant=2), do("conv1", 1, dim=1)))
    same_graph(
        program(code, constants=(0.5,), dims=(4,)),
        program(moved, constants=(1.0, 2.0, 0.5), dims=(8, 4)),
    )


def test_the_order_of_subprograms_does_not_change_the_id() -> None:
    main = (do("call", 0, calls=1), do("call", 1, calls=2))
    turned = (do("call", 0, calls=2), do("call", 1, calls=1))
    one, other = Subprogram((do("exp", 0),)), Subprogram((do("abs", 0),))
    same_graph(program(Subprogram(main), one, other), program(Subprogram(turned), other, one))
    unused = program(Subprogram(main), one, other, Subprogram((do("sin", 0),)))
    same_graph(program(Subprogram(main), one, other), unused)


def test_equal_subprograms_become_one() -> None:
    main = (do("call", 0, calls=1), do("call", 1, calls=2))
    leaf = Subprogram((do("scale", 0),))
    shared = (do("call", 0, calls=1), do("call", 1, calls=1))
    same_graph(program(Subprogram(main), leaf, leaf), program(Subprogram(shared), leaf))


def test_inputs_that_nobody_reads_do_not_change_the_id() -> None:
    plain = program(Subprogram((do("call", 0, calls=1),)), Subprogram((do("exp", 0),)))
    for read in (0, 1):
        main = Subprogram((do("conv1", 0), do("call", read, 1 - read, calls=1)))
        leaf = Subprogram((do("exp", read),), inputs=2)
        same_graph(plain, program(main, leaf, dims=(8,)))


def test_calls_that_do_nothing_do_not_change_the_id() -> None:
    main = Subprogram((do("call", 0, calls=1), do("exp", 1)))
    same_graph(program(main, Subprogram(())), program(Subprogram((do("exp", 0),))))


def test_different_graphs_have_different_ids() -> None:
    layers = [
        *(make(WIDTH, heads, 64) for make in PUBLISHED for heads in (2, 4)),
        program(NORM),
        program(Subprogram((do("reduce_mean", 0), do("difference", 1, 0)))),
        program(Subprogram((do("conv1", 0),)), dims=(4,)),
        program(Subprogram((do("conv1", 0, branches=2),)), dims=(4,)),
        program(Subprogram((do("conv1", 0),)), dims=(4,)).replace(stream=4),
    ]
    assert len({arch_id(alone(layer)) for layer in layers}) == len(layers)


@given_program
def test_the_canonical_form_counts_the_same_and_is_its_own_canonical_form(
    layer: Program, rng: Random
) -> None:
    site, load = Site(width=WIDTH, causal=True), Load(batch=2, length=9)
    plain = tidy(layer)
    assert tidy(plain) == plain
    assert plain.count(site, load) == layer.count(site, load)
    steps = sorted(step.op for step in layer.straight_line(site).steps)
    assert steps == sorted(step.op for step in plain.straight_line(site).steps)
