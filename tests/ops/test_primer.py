"""Primer and the Transformer as programs are what they are as layers written by hand."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from tests.model.test_laws import kept_by_torch
from tests.ops.program_reference import WIDTH, built, padding, stream
from torch import nn

from formwright.arch import (
    Architecture,
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
    primer_ez_program,
    primer_program,
    transformer_program,
)
from formwright.arch.graph.programs import NORM
from formwright.ops import Context, Past
from formwright.ops.feedforward.feedforward import squared_relu
from formwright.testing import OperatorTestCase

HEADS, INNER = 4, 32
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


@pytest.mark.parametrize(
    ("width", "heads", "inner"), [(512, 8, 2048), (768, 12, 3072), (1024, 16, 8192)]
)
def test_the_published_sizes_can_be_written_as_programs(width: int, heads: int, inner: int) -> None:
    site, load = Site(width=width, causal=True), Load(length=4)
    program = primer_program(width, heads, inner)
    norms, attention = 4 * width, 4 * width * width + 6 * width
    feedforward = 2 * width * inner + inner + width
    assert program.count(site, load).params == norms + attention + feedforward


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
    program = built(Program((Subprogram((Instruction("depthwise3", 0),)),)))
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
