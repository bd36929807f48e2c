"""Programs compute what they say, what hand-written layers compute, and never look ahead."""

from collections.abc import Callable
from random import Random
from typing import get_args

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.model.test_laws import kept_by_torch
from tests.ops.program_reference import Reference
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode

from formwright.arch import (
    Attention,
    Decoder,
    FeedForward,
    Frame,
    Instruction,
    LanguageModel,
    Layer,
    LayerNorm,
    Load,
    PrimerNorm,
    Program,
    Residual,
    Site,
    Stack,
    Subprogram,
    canonical,
    primer_ez_program,
    primer_program,
    transformer_program,
)
from formwright.arch.architecture import Architecture
from formwright.arch.instruction import BINARY, LEARNED, UNARY, WITH_CONSTANT, Word
from formwright.arch.programs import NORM
from formwright.errors import ShapeError, SpecError
from formwright.model import build
from formwright.ops import Builder, Context, Past
from formwright.ops.feedforward.activation import squared_relu
from formwright.ops.program import ProgramOp
from formwright.testing import OperatorTestCase
from formwright.testing.programs import random_program

WIDTH, HEADS, INNER = 16, 4, 32
EXACT = {"rtol": 0, "atol": 1e-10}

LAYER_NORM = LayerNorm(eps=1e-6)
BY_HAND: dict[str, tuple[Callable[[int, int, int], Program], tuple[Layer, Layer]]] = {
    "transformer": (
        transformer_program,
        (
            Residual(Attention(HEADS, bias=False), norm=LAYER_NORM),
            Residual(FeedForward(INNER, "relu"), norm=LAYER_NORM),
        ),
    ),
    "primer_ez": (
        primer_ez_program,
        (
            Residual(Attention(HEADS, conv=3, bias=False), norm=LAYER_NORM),
            Residual(FeedForward(INNER, "squared_relu"), norm=LAYER_NORM),
        ),
    ),
    "primer": (
        primer_program,
        (
            Residual(
                Attention(HEADS, conv=3, query_key="solo", bias=False),
                norm=PrimerNorm(),
            ),
            Residual(FeedForward(INNER, "squared_relu"), place="after", norm=PrimerNorm()),
        ),
    ),
}
every_published = pytest.mark.parametrize("name", BY_HAND)


def built(layer: Layer, width: int = WIDTH, *, causal: bool = True, seed: int = 0) -> nn.Module:
    """A layer with weights that are all random, norms and shifts included, in float64."""
    torch.manual_seed(seed)
    module = Builder().build(layer, Site(width=width, causal=causal)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0.0, 0.5)
    return module


def stream(length: int = 9, width: int = WIDTH) -> Tensor:
    return torch.randn(2, length, width, dtype=torch.float64)


def padding(length: int = 9) -> Tensor:
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[0, :2] = False
    mask[1, 6:] = False
    return mask


def copy_weights(layers: nn.Module, program: nn.Module) -> None:
    """Give a published program the weights of the same layers written by hand."""
    mixing, feedforward = layers.layers
    attention, inner = mixing.inner, feedforward.inner
    projections = (attention.query, attention.key, attention.solo, attention.value, attention.out)
    taps = (attention.query_conv, attention.key_conv, None, attention.value_conv, None)
    order = [mixing.norm.weight, mixing.norm.bias]
    for linear, conv in zip(projections, taps, strict=True):
        order += [] if linear is None else [linear.weight]
        order += [] if conv is None else [conv.weight]
    dense = [inner.up.weight, inner.up.bias, inner.down.weight, inner.down.bias]
    norm = [feedforward.norm.weight, feedforward.norm.bias]
    order += dense + norm if feedforward.place == "after" else norm + dense
    with torch.no_grad():
        for ours, theirs in zip(program.parameters(), order, strict=True):
            ours.copy_(theirs.view_as(ours))


def both(name: str, *, causal: bool = True) -> tuple[nn.Module, nn.Module]:
    make, layers = BY_HAND[name]
    by_hand = built(Stack(layers), causal=causal)
    program = built(make(WIDTH, HEADS, INNER), causal=causal)
    copy_weights(by_hand, program)
    return by_hand, program


# --- the same as layers written by hand ------------------------------------------------------


@every_published
def test_published_programs_compute_what_hand_written_layers_compute(name: str) -> None:
    by_hand, program = both(name)
    x = stream()
    torch.testing.assert_close(program(x, Context()), by_hand(x, Context()), **EXACT)


@every_published
def test_they_agree_on_real_tokens_where_there_is_padding(name: str) -> None:
    by_hand, program = both(name)
    x, mask = stream(), padding()
    ours, theirs = program(x, Context(mask=mask)), by_hand(x, Context(mask=mask))
    torch.testing.assert_close(ours[mask], theirs[mask], **EXACT)


@every_published
def test_they_have_the_same_gradients(name: str) -> None:
    by_hand, program = both(name)
    x = stream().requires_grad_()
    weigh = torch.randn_like(x)
    ours = torch.autograd.grad((program(x, Context()) * weigh).sum(), x)[0]
    theirs = torch.autograd.grad((by_hand(x, Context()) * weigh).sum(), x)[0]
    torch.testing.assert_close(ours, theirs, **EXACT)


def test_the_transformer_program_also_stands_in_an_encoder() -> None:
    by_hand, program = both("transformer", causal=False)
    x, mask = stream(), padding()
    ours, theirs = program(x, Context(mask=mask)), by_hand(x, Context(mask=mask))
    torch.testing.assert_close(ours[mask], theirs[mask], **EXACT)


@every_published
def test_published_programs_have_the_counts_of_hand_written_layers(name: str) -> None:
    make, layers = BY_HAND[name]
    site, load = Site(width=WIDTH, causal=True), Load(batch=2, length=9)
    ours = make(WIDTH, HEADS, INNER).count(site, load)
    theirs = Stack(layers).count(site, load)
    assert (ours.params, ours.flops) == (theirs.params, theirs.flops)


@pytest.mark.parametrize(("width", "heads", "inner"), [(512, 8, 2048), (1024, 16, 8192)])
def test_the_published_sizes_can_be_written_as_programs(width: int, heads: int, inner: int) -> None:
    site, load = Site(width=width, causal=True), Load(length=4)
    program = primer_program(width, heads, inner)
    norms, attention = 4 * width, 4 * width * width + 6 * width
    feedforward = 2 * width * inner + inner + width
    assert program.count(site, load).params == norms + attention + feedforward


# --- what the paper's parts are --------------------------------------------------------------


@pytest.mark.parametrize("make", [transformer_program, primer_program])
def test_the_norms_of_programs_are_layer_norm(make: Callable[..., Program]) -> None:
    whole = make(WIDTH, HEADS, INNER)
    norm = built(whole.replace(subprograms=(whole.subprograms[NORM],)))
    scale, shift = (p.flatten() for p in norm.parameters())
    x = stream()
    wanted = F.layer_norm(x, (WIDTH,), scale, shift, eps=1e-6)
    torch.testing.assert_close(norm(x, Context()), wanted, rtol=0, atol=1e-12)


def test_the_norm_that_primer_found_is_layer_norm() -> None:
    norm = built(PrimerNorm())
    x = stream()
    wanted = F.layer_norm(x, (WIDTH,), norm.weight, norm.bias, eps=1e-6)
    torch.testing.assert_close(norm(x, Context()), wanted, rtol=0, atol=1e-12)


def test_ez_adds_nine_numbers_per_head_channel() -> None:
    site, load = Site(width=WIDTH, causal=True), Load()
    plain = transformer_program(WIDTH, HEADS, INNER).count(site, load).params
    ez = primer_ez_program(WIDTH, HEADS, INNER).count(site, load).params
    assert ez - plain == 9 * WIDTH
    for key in (3, 8):  # heads narrower and wider than the stream has room for
        plain = Attention(HEADS, key=key, bias=False).count(site, load).params
        ez = Attention(HEADS, key=key, conv=3, bias=False).count(site, load).params
        assert ez - plain == 9 * HEADS * key


def test_sharing_queries_and_keys_changes_the_count_as_published() -> None:
    site, load = Site(width=WIDTH, causal=True), Load()
    ez = primer_ez_program(WIDTH, HEADS, INNER).count(site, load).params
    primer = primer_program(WIDTH, HEADS, INNER).count(site, load).params
    assert primer - ez == -WIDTH * WIDTH + WIDTH**2 - 3 * WIDTH
    for key in (3, 8):
        w = HEADS * key
        attention = Attention(HEADS, key=key, conv=3, bias=False)
        shared = attention.replace(query_key="solo").count(site, load).params
        assert shared - attention.count(site, load).params == -WIDTH * w + w**2 - 3 * w


def test_convolutions_that_look_at_the_token_alone_change_no_bit() -> None:
    plain, convolved = built(Attention(HEADS)), built(Attention(HEADS, conv=3))
    missing = convolved.load_state_dict(plain.state_dict(), strict=False)
    assert sorted(missing.missing_keys) == [f"{p}_conv.weight" for p in ("key", "query", "value")]
    with torch.no_grad():
        for conv in (convolved.query_conv, convolved.key_conv, convolved.value_conv):
            conv.weight.zero_()
            conv.weight[:, -1] = 1.0  # taps run from the oldest token to the newest
    x = stream()
    assert torch.equal(plain(x, Context()), convolved(x, Context()))


def test_a_convolution_of_three_sees_three_tokens() -> None:
    program = built(of(Instruction("depthwise3", 0)))
    x = stream()
    edited = x.clone()
    edited[:, 4] += 1
    changed = (program(x, Context()) != program(edited, Context())).any(-1).any(0)
    assert changed.nonzero().flatten().tolist() == [4, 5, 6]


def test_squared_relu_is_smooth_at_zero_and_quadratic() -> None:
    x = torch.tensor([-1e-9, 0.0, 1e-9], dtype=torch.float64, requires_grad=True)
    y = squared_relu(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert y.abs().max() < 1e-17
    assert slope.abs().max() < 1e-8
    positive = torch.rand(20, dtype=torch.float64)
    torch.testing.assert_close(squared_relu(2 * positive), 4 * squared_relu(positive))


def test_squared_relu_is_a_gated_relu_with_tied_maps() -> None:
    squared = built(FeedForward(INNER, "squared_relu"))
    gated = built(FeedForward(INNER, "relu", gate=True))
    gated.load_state_dict(squared.state_dict(), strict=False)
    gated.gate.load_state_dict(squared.up.state_dict())
    x = stream()
    torch.testing.assert_close(gated(x, Context()), squared(x, Context()), rtol=0, atol=1e-12)


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
    _, program = both("primer")
    assert isinstance(program.code, fx.GraphModule)
    text = program.code.code
    assert not any(f"{word} " in text for word in ("for", "while", "if"))
    program(stream(), Context())
    assert program.code.code is text


def test_weights_that_the_result_does_not_need_are_not_built() -> None:
    program = of(Instruction("conv1", 0), Instruction("conv1", 0), Instruction("square", 2))
    assert sum(p.numel() for p in built(program).parameters()) == WIDTH * WIDTH


@every_published
def test_what_training_keeps_is_counted(name: str) -> None:
    program = BY_HAND[name][0](WIDTH, HEADS, INNER)
    arch = Architecture(
        Stack((program, program)), Decoder(WIDTH), frame=Frame(20, 12, LanguageModel())
    )
    one = arch.replace(layers=Stack((program,)))
    counted = program.count(Site(width=WIDTH, causal=True), Load(batch=2, length=12)).kept
    assert counted == pytest.approx(kept_by_torch(arch) - kept_by_torch(one), rel=0.02)


@pytest.mark.parametrize("example", BY_HAND, scope="class")
class TestPublishedPrograms(OperatorTestCase):
    """The laws that every layer obeys, in an encoder and in a decoder."""

    @pytest.fixture(autouse=True)
    def chosen(self, example: str) -> None:
        self.node = BY_HAND[example][0](WIDTH, HEADS, INNER)  # type: ignore[misc]


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


@every_published
def test_published_programs_read_piece_by_piece(name: str) -> None:
    _, program = both(name)
    x, mask, past = stream(), padding(), Past()
    whole, pieces = program(x, Context(mask=mask)), []
    for start, end in ((0, 4), (4, 5), (5, 9)):
        part = mask[:, start:end]
        pieces.append(program(x[:, start:end], Context(mask=part, past=past)))
        past.advance(part, 2, end - start)
    torch.testing.assert_close(torch.cat(pieces, dim=1)[mask], whole[mask], **EXACT)


@given_program(100)
def test_counts_of_random_programs_are_exact(
    program: Program, module: ProgramOp, causal: bool
) -> None:
    counted = program.count(Site(width=WIDTH, causal=causal), Load(batch=2, length=9))
    assert counted.params == sum(p.numel() for p in module.parameters())
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
    program = primer_ez_program(WIDTH, HEADS, INNER)
    arch = Architecture(Stack((program,)), Decoder(WIDTH), frame=Frame(20, 12, LanguageModel()))
    torch.manual_seed(1)
    one = build(arch, seed=3)
    torch.manual_seed(2)
    other = build(arch, seed=3)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
