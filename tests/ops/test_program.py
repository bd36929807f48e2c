"""Programs compute what their words say, and never look ahead."""

from collections.abc import Callable
from random import Random
from typing import get_args

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.ops.program_reference import WIDTH, Reference, built, padding, stream
from torch import Tensor, fx
from torch.utils.flop_counter import FlopCounterMode

from formwright.arch import (
    Decoder,
    Frame,
    Instruction,
    LanguageModel,
    Load,
    Program,
    Site,
    Stack,
    Subprogram,
    canonical,
    primer_ez_program,
    primer_program,
)
from formwright.arch.architecture import Architecture
from formwright.arch.graph.instruction import BINARY, LEARNED, UNARY, WITH_CONSTANT, Word
from formwright.errors import ShapeError, SpecError
from formwright.model import build
from formwright.ops import Context, Past
from formwright.ops.primitive.weights import Dense
from formwright.ops.program import ProgramOp
from formwright.testing.programs import random_program

# --- instructions ----------------------------------------------------------------------------


def of(*code: Instruction, dims: tuple[int, ...] = (8,)) -> Program:
    """A program of one subprogram."""
    return Program((Subprogram(code),), (0.3,), dims)


def around(word: Word, kind: str) -> Program:
    """One instruction on rows or on scores, with what it needs to stand in a program."""
    if kind == "rows":
        return of(Instruction("conv1", 0), Instruction(word, 1, 0))
    scores = (
        Instruction("mat_mul_transposed", 0, 0, branches=2),
        Instruction("c_mul", 1),
        Instruction(word, 1, 2),
    )
    if word.startswith("reduce"):
        return of(*scores)
    return of(*scores, Instruction("mat_mul", 3, 0))


ON_SCORES_ONLY = ("mask", "mat_mul")
WORDS = [word for word in get_args(Word) if word != "call"]
CASES = [(word, "rows") for word in WORDS if word not in (*ON_SCORES_ONLY, "mat_mul_transposed")]
CASES += [(word, "scores") for word in WORDS if word not in LEARNED]
every_word = pytest.mark.parametrize(("word", "kind"), CASES)
either_stack = pytest.mark.parametrize("causal", [True, False], ids=["causal", "both ways"])


@pytest.mark.parametrize(
    ("word", "kind"),
    [(word, "rows") for word in ON_SCORES_ONLY] + [(word, "scores") for word in LEARNED],
)
def test_words_that_mean_nothing_for_a_kind_of_value_are_refused(word: Word, kind: str) -> None:
    with pytest.raises(ShapeError, match=rf"subprogram 0, instruction \d \({word}\)"):
        around(word, kind).out_width(Site(width=WIDTH))


@every_word
@either_stack
def test_every_word_means_what_the_reference_reads(word: Word, kind: str, causal: bool) -> None:
    program = around(word, kind)
    module = built(program, causal=causal)
    reference = Reference(program, module, WIDTH, causal)
    x, mask = stream(), padding()
    torch.testing.assert_close(module(x, Context()), reference(x), rtol=1e-9, atol=1e-9)
    ours = module(x, Context(mask=mask))[mask]
    torch.testing.assert_close(ours, reference(x, mask)[mask], rtol=1e-9, atol=1e-9)


@every_word
def test_no_word_looks_ahead(word: Word, kind: str) -> None:
    module = built(around(word, kind))
    x = stream()
    edited = x.clone()
    edited[:, 5:] = torch.randn_like(edited[:, 5:])
    before, after = module(x, Context()), module(edited, Context())
    assert not torch.equal(before, after)
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=1e-10, atol=1e-10)


@every_word
@either_stack
def test_no_word_looks_at_padding(word: Word, kind: str, causal: bool) -> None:
    module = built(around(word, kind), causal=causal)
    x, ctx = stream(), Context(mask=padding())
    edited = x.clone()
    edited[~padding()] = torch.randn_like(edited[~padding()])
    before, after = module(x, ctx)[padding()], module(edited, ctx)[padding()]
    torch.testing.assert_close(before, after, rtol=1e-10, atol=1e-10)


# value 1 is rows, 2 are scores that nothing hides, 4 are the hidden ones themselves
AFTER_MASK = [(word, 0.0, (4, 4)) for word in UNARY]
AFTER_MASK += [(word, c, (4, 4)) for word in WITH_CONSTANT for c in (-0.7, 0.0, 0.7)]
AFTER_MASK += [(word, 0.0, pair) for word in BINARY for pair in ((4, 1), (1, 4), (4, 2), (2, 4))]
AFTER_MASK += [(word, 0.0, pair) for word in BINARY for pair in ((4, 4), (3, 4), (4, 3))]


@pytest.mark.parametrize(("word", "constant", "pair"), AFTER_MASK)
@pytest.mark.parametrize("before", ["mask", "exp"])
@pytest.mark.parametrize("end", ["mat_mul", "reduce_max"])
def test_what_is_hidden_stays_hidden_whatever_is_done_to_it(
    word: Word, constant: float, pair: tuple[int, int], before: str, end: Word
) -> None:
    """A wrong belief about what hidden scores hold would let the future shine through."""
    code = (
        Instruction("reduce_sum", 0),
        Instruction("mat_mul_transposed", 0, 0),
        Instruction("mask", 2),
        Instruction("exp" if before == "exp" else "c_mul", 3, constant=1),
        Instruction(word, *pair),
        Instruction(end, 5, 0),
    )
    program = Program((Subprogram(code),), (constant, 1.0), (8,))
    module = built(program)
    x = stream() / 4
    edited = x.clone()
    edited[:, 5:] = torch.randn_like(edited[:, 5:])
    ours, wanted = module(x, Context()), Reference(program, module, WIDTH, True)(x)
    torch.testing.assert_close(ours, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)
    after = module(edited, Context())
    torch.testing.assert_close(ours[:, :5], after[:, :5], rtol=1e-9, atol=1e-9, equal_nan=True)


def test_branches_have_weights_of_their_own_and_stand_side_by_side() -> None:
    module = built(of(Instruction("conv1", 0, branches=4), dims=(2,)))
    (weight,) = module.parameters()
    x = stream()
    wanted = torch.cat([x @ w.T for w in weight.chunk(4)], dim=-1)
    torch.testing.assert_close(module(x, Context()), wanted)


@either_stack
@pytest.mark.parametrize("word", [*LEARNED, "mat_mul", "cum_sum", "reduce_max", "multiply"])
def test_branches_within_branches_are_what_the_reference_reads(word: Word, causal: bool) -> None:
    """Each word once on what all branches share and once on what is their own."""
    main = (Instruction("call", 0, branches=4, calls=1), Instruction("scale", 1))
    middle = (
        Instruction("conv1", 0),
        Instruction("call", 1, 0, branches=2, calls=2),
        Instruction("shift", 2),
    )
    inner = (
        Instruction("conv1", 0),
        Instruction("mat_mul_transposed", 0, 2, branches=2),
        Instruction("mat_mul", 3, 2) if word == "mat_mul" else Instruction(word, 2, 0),
        Instruction(word, 3, 2) if word == "mat_mul" else Instruction(word, 1, 0),
        Instruction("add", 4, 5),
        Instruction("conv3", 6),
    )
    subprograms = (Subprogram(main), Subprogram(middle), Subprogram(inner, 2))
    program = Program(subprograms, (0.3,), (2,))
    module = built(program, causal=causal)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.div_(2)
    x, mask = stream(), padding()
    wanted = Reference(program, module, WIDTH, causal)(x, mask)[mask]
    torch.testing.assert_close(module(x, Context(mask=mask))[mask], wanted)


def test_each_call_owns_its_weights() -> None:
    leaf = Subprogram((Instruction("scale", 0),))
    main = Subprogram((Instruction("call", 0, calls=1), Instruction("call", 1, calls=1)))
    module = built(Program((main, leaf)))
    one, other = (p.flatten() for p in module.parameters())
    x = stream()
    torch.testing.assert_close(module(x, Context()), x * one * other)


def test_widths_that_do_not_fit_are_cut_off_or_filled_up() -> None:
    narrow = built(of(Instruction("conv1", 0), Instruction("add", 0, 1), dims=(4,)))
    (weight,) = narrow.parameters()
    x = stream()
    wanted = x.clone()
    wanted[..., : WIDTH // 2] += x @ weight.T
    torch.testing.assert_close(narrow(x, Context()), wanted)
    broad = built(of(Instruction("conv1", 0), Instruction("add", 0, 1), dims=(16,)))
    (weight,) = broad.parameters()
    torch.testing.assert_close(broad(x, Context()), x + x @ weight[:WIDTH].T)


# --- compiled --------------------------------------------------------------------------------


def test_a_program_is_compiled_to_straight_line_code_once() -> None:
    program = built(primer_program(WIDTH, 4, 32))
    assert isinstance(program.code, fx.GraphModule)
    text = program.code.code
    assert not any(f"{word} " in text for word in ("for", "while", "if"))
    program(stream(), Context())
    assert program.code.code is text


def test_weights_that_the_result_does_not_need_are_not_built() -> None:
    program = of(Instruction("conv1", 0), Instruction("conv1", 0), Instruction("square", 2))
    assert sum(p.numel() for p in built(program).parameters()) == WIDTH * WIDTH


# --- random programs -------------------------------------------------------------------------


def given_program(
    examples: int, *, causal: bool | None = None
) -> Callable[[Callable[[Program, ProgramOp, bool], None]], Callable[[], None]]:
    """Run a test on many random programs whose numbers stay finite."""

    def decorate(test: Callable[[Program, ProgramOp, bool], None]) -> Callable[[], None]:
        @settings(max_examples=examples, deadline=None)
        @given(st.randoms(use_true_random=False))
        def run(rng: Random) -> None:
            program = random_program(rng, WIDTH, changes=12)
            ahead = rng.random() < 0.5 if causal is None else not causal
            test(program, built(program, causal=not ahead), not ahead)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def finite(module: ProgramOp, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """The result, if all numbers on the way are small enough to be compared."""
    result = module(x, Context(mask=mask))
    assume(bool(torch.isfinite(result).all()) and bool(result.abs().max() < 1e6))
    return result


@given_program(100)
def test_random_programs_mean_what_the_reference_reads(
    program: Program, module: ProgramOp, causal: bool
) -> None:
    x, mask = stream(), padding()
    reference = Reference(program, module, WIDTH, causal)
    torch.testing.assert_close(finite(module, x), reference(x), rtol=1e-6, atol=1e-6)
    ours = finite(module, x, mask)[mask]
    torch.testing.assert_close(ours, reference(x, mask)[mask], rtol=1e-6, atol=1e-6)


@given_program(100, causal=True)
def test_random_programs_never_look_ahead(
    program: Program, module: ProgramOp, causal: bool
) -> None:
    x = stream()
    edited = x.clone()
    edited[:, 5:] = torch.randn_like(edited[:, 5:])
    before, after = finite(module, x), finite(module, edited)
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=1e-8, atol=1e-8)


@given_program(100)
def test_padding_never_changes_real_tokens_of_random_programs(
    program: Program, module: ProgramOp, causal: bool
) -> None:
    x, mask = stream(), padding()
    edited = x.clone()
    edited[~mask] = torch.randn_like(edited[~mask])
    before, after = finite(module, x, mask)[mask], finite(module, edited, mask)[mask]
    torch.testing.assert_close(before, after, rtol=1e-8, atol=1e-8)


@given_program(100, causal=True)
def test_random_programs_read_piece_by_piece_or_refuse(
    program: Program, module: ProgramOp, causal: bool
) -> None:
    x, past = stream(), Past()
    whole, pieces = finite(module, x), []
    for start, end in ((0, 4), (4, 5), (5, 9)):
        if not module.reads_pieces:
            with pytest.raises(SpecError, match="piece by piece"):
                module(x[:, start:end], Context(past=past))
            return
        pieces.append(module(x[:, start:end], Context(past=past)))
        past.advance(None, 2, end - start)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-7, atol=1e-7)


@given_program(100)
def test_counts_of_random_programs_are_exact(
    program: Program, module: ProgramOp, causal: bool
) -> None:
    counted = program.count(Site(width=WIDTH, causal=causal), Load(batch=2, length=9))
    assert counted.params == sum(p.numel() for p in module.parameters())
    # A product over one channel in several lanes is a plain multiplication to torch's einsum, which
    # its counter does not see.
    dense = [part for part in module.modules() if isinstance(part, Dense)]
    assume(not any(part.lanes > 1 and part.map.in_features == 1 for part in dense))
    meta = module.to("meta")
    with FlopCounterMode(display=False) as counter:
        meta(torch.empty(2, 9, WIDTH, dtype=torch.float64, device="meta"), Context())
    assert counted.flops == counter.get_total_flops()


@given_program(100)
def test_the_canonical_form_computes_the_same(
    program: Program, module: ProgramOp, causal: bool
) -> None:
    arch = Architecture(Stack((program,)), Decoder(WIDTH))
    plain = built(canonical(arch).layers.layers[0], causal=causal)
    for parameter in (*module.parameters(), *plain.parameters()):  # equal if of equal shape
        values = torch.linspace(-0.5, 0.7, parameter.numel(), dtype=torch.float64)
        parameter.data = values.view_as(parameter)
    x = stream()
    torch.testing.assert_close(finite(module, x), plain(x, Context()), rtol=1e-8, atol=1e-8)


def test_a_model_of_programs_is_the_same_every_time_it_is_built() -> None:
    program = primer_ez_program(WIDTH, 4, 32)
    arch = Architecture(Stack((program,)), Decoder(WIDTH), frame=Frame(20, 12, LanguageModel()))
    torch.manual_seed(1)
    one = build(arch, seed=3)
    torch.manual_seed(2)
    other = build(arch, seed=3)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
