"""Members that compute the same have the same fingerprint, however they are written."""

from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from tests.ops.program_reference import WIDTH, built

from formwright.arch import Attention, Conv, Instruction, Program, Site
from formwright.arch.graph.cell import Block, Branch, Cell
from formwright.arch.graph.form import Vertex, cell_text, formula_text, graph_text
from formwright.arch.graph.formula_steps import Step
from formwright.arch.graph.formulas import Formula, standard
from formwright.arch.graph.program import Subprogram
from formwright.arch.graph.programs import (
    primer_ez_program,
    primer_program,
    transformer_program,
)
from formwright.arch.graph.unfold import straight_line
from formwright.arch.layer import Identity
from formwright.ops.base import Context
from formwright.ops.program import weight_name
from formwright.space import Comparable, named_space
from formwright.space.formulas import drawn_formula
from formwright.space.functions import formula_print, program_print, run_formula, run_line
from formwright.space.programs import mutated

PUBLISHED = (transformer_program, primer_ez_program, primer_program)


def do(op: Any, first: int, second: int = 0, **more: Any) -> Instruction:
    return Instruction(op, first, second, **more)


def program(*code: Instruction, **more: Any) -> Program:
    return Program((Subprogram(code),), **{"constants": (0.5,), "dims": (8,), **more})


def same(one: Program, other: Program) -> bool:
    return program_print(one, 16) == program_print(other, 16)


# --- numpy reads what torch computes --------------------------------------------------------


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("causal", [True, False])
def test_numpy_reads_programs_as_torch_does(seed: int, causal: bool) -> None:
    rng = Random(seed)
    made = rng.choice(PUBLISHED)(WIDTH, 4, 2 * WIDTH)
    for _ in range(rng.randint(0, 4)):
        made = mutated(rng, made, WIDTH)
    module: Any = built(made, causal=causal)
    weights = dict(module.code.named_parameters())

    def given(step: Any) -> Any:
        name = weight_name(step.path)
        name += ".map.weight" if step.op == "conv1" else ".weight"
        return weights[name].detach().numpy()

    x = torch.randn(1, 6, WIDTH, dtype=torch.float64)
    with np.errstate(all="ignore"):
        ours = run_line(straight_line(made, WIDTH), x[0].numpy(), given, causal=causal)
    theirs = module(x, Context())[0].detach().numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_numpy_reads_the_standard_formula_as_torchs_attention() -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 5, 4))
    for causal in (False, True):
        ours = run_formula(standard(1), np.stack([q, k, v]), causal=causal)
        theirs = torch.nn.functional.scaled_dot_product_attention(
            *(torch.tensor(part)[None, None] for part in (q, k, v)), is_causal=causal
        )
        np.testing.assert_allclose(ours, theirs[0, 0].numpy(), rtol=1e-9)


# --- equal functions ------------------------------------------------------------------------


def test_the_order_of_a_sum_does_not_change_the_function() -> None:
    one = program(do("square", 0), do("tanh", 0), do("add", 1, 2))
    assert same(one, program(do("square", 0), do("tanh", 0), do("add", 2, 1)))
    assert not same(one, program(do("square", 0), do("tanh", 0), do("difference", 1, 2)))


def test_what_is_written_differently_and_computes_the_same_is_the_same() -> None:
    twice = program(do("abs", 0), do("abs", 1))
    assert same(twice, program(do("abs", 0)))
    assert same(program(do("multiply", 0, 0)), program(do("square", 0)))


def test_a_call_written_out_is_the_same_function() -> None:
    inner = Subprogram((do("conv1", 0), do("tanh", 1)))
    called = Program((Subprogram((do("call", 0, calls=1),)), inner), dims=(8,))
    assert same(called, program(do("conv1", 0), do("tanh", 1)))


def test_weights_of_their_own_make_another_function() -> None:
    shared = program(do("conv1", 0), do("multiply", 1, 1))
    assert not same(shared, program(do("conv1", 0), do("conv1", 0), do("multiply", 1, 2)))


def test_programs_without_a_finite_answer_are_told_apart_by_their_graphs() -> None:
    def endless(word: str) -> Program:
        zero = do("c_mul", 0, constant=0)
        return program(zero, do("recip", 1), do(word, 2), constants=(0.0,))

    assert same(endless("abs"), endless("abs"))
    assert not same(endless("abs"), endless("square"))


def test_formulas_that_only_name_their_inputs_differently_are_the_same() -> None:
    plain = standard(2)
    turned = {0: 1, 1: 0}
    steps = [step.replace(of=tuple(turned.get(at, at) for at in step.of)) for step in plain.steps]
    swapped = plain.replace(steps=tuple(steps))
    assert formula_text(plain) == formula_text(swapped)
    twice = Formula(2, (Step("neg", (0,)), Step("neg", (3,)), *moved(plain)), 3)
    assert formula_print(twice) == formula_print(plain)
    assert formula_print(plain) != formula_print(drawn_formula(Random(1), 2, causal=False))


def moved(plain: Formula) -> list[Step]:
    """The steps two places later, with the input that was turned round twice."""
    return [
        step.replace(of=tuple(4 if at == 0 else at + 2 * (at >= 3) for at in step.of))
        for step in plain.steps
    ]


# --- canonical graphs -----------------------------------------------------------------------


def test_dead_ends_and_the_order_of_writing_do_not_show_in_a_graph() -> None:
    one = [Vertex("x"), Vertex("a", (0,)), Vertex("b", (0,)), Vertex("+", (1, 2), True)]
    two = [Vertex("x"), Vertex("b", (0,)), Vertex("z", (1,)), Vertex("a", (0,))]
    two.append(Vertex("+", (1, 3), True))
    assert graph_text(one, [3]) == graph_text(two, [4])
    minus = [*one[:3], Vertex("-", (1, 2))]
    assert graph_text(minus, [3]) != graph_text([*one[:3], Vertex("-", (2, 1))], [3])


def test_twins_are_not_one_vertex() -> None:
    shared = [Vertex("x"), Vertex("conv", (0,)), Vertex("+", (1, 1), True)]
    apart = [Vertex("x"), Vertex("conv", (0,)), Vertex("conv", (0,)), Vertex("+", (1, 2), True)]
    assert graph_text(shared, [2]) != graph_text(apart, [3])


def test_cells_are_the_same_in_any_order_of_blocks_and_of_branches_that_commute() -> None:
    conv, attend = Branch(0, Conv(3)), Branch(0, Attention(2, bias=False))
    keep = Branch(0, Identity())
    one = Cell((Block(conv, keep), Block(attend, keep)))
    assert cell_text(one) == cell_text(Cell((Block(keep, attend), Block(keep, conv))))
    joined = Cell((Block(conv, keep, combine="concat"),))
    assert cell_text(joined) != cell_text(Cell((Block(keep, conv, combine="concat"),)))


@pytest.mark.parametrize("name", ["primer", "autobert-zero", "evolved"])
def test_most_changes_are_another_function_and_fingerprints_repeat(name: str) -> None:
    space = named_space(name)
    assert isinstance(space, Comparable)
    rng = Random(0)
    seed = space.draw(rng)
    children = [space.change(seed, rng) for _ in range(12)]
    prints = [space.fingerprint(child) for child in children]
    assert prints == [space.fingerprint(child) for child in children]
    assert len(set(prints)) > 6


def test_the_width_of_the_stream_does_not_decide_what_is_the_same() -> None:
    site = Site(width=64, causal=True)
    seed = transformer_program(64, 4, 256)
    assert program_print(seed, site.width) != program_print(primer_ez_program(64, 4, 256), 64)
