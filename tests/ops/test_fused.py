"""Programs run on torch's own kernels where they are written like what these compute."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.ops.program_reference import WIDTH, built, padding, stream
from tests.ops.test_primer import BY_HAND, copy_weights
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from formwright.arch import (
    Attention,
    FeedForward,
    Instruction,
    Load,
    Program,
    Residual,
    Site,
    Stack,
    Subprogram,
    primer_ez_program,
    primer_program,
    transformer_program,
)
from formwright.arch.graph.fuse import fused
from formwright.arch.graph.programs import ATTENTION, HEAD, NORM, SOFTMAX
from formwright.arch.graph.unfold import straight_line
from formwright.ops import Builder, Context

PUBLISHED = (transformer_program, primer_ez_program, primer_program)
SITE = Site(width=WIDTH, causal=True)
every_published = pytest.mark.parametrize("make", PUBLISHED)


def ops(program: Program, width: int = WIDTH) -> Counter[str]:
    return Counter(step.op for step in fused(straight_line(program, width)).steps)


def do(op: Any, first: int, second: int = 0, **more: Any) -> Instruction:
    return Instruction(op, first, second, **more)


@every_published
def test_published_programs_are_attention_norms_and_maps(make: Callable[..., Program]) -> None:
    found = ops(make(WIDTH, 4, 32))
    assert (found["attend"], found["norm"], found["dense"], found["relu"]) == (1, 2, 2, 1)
    slow = {"exp", "divide", "difference", "reduce_mean", "reduce_max", "hide", "abs_root", "turn"}
    assert not slow & set(found)


@every_published
@pytest.mark.parametrize("causal", [True, False])
def test_fused_or_not_a_program_computes_the_same(
    make: Callable[..., Program], causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = make(WIDTH, 4, 32)
    fast = built(program, causal=causal)
    monkeypatch.setattr(Program, "compiled", Program.straight_line)
    slow = built(program, causal=causal)
    slow.load_state_dict(fast.state_dict())
    for mask in (None, padding()):
        x = stream().requires_grad_()
        ours, theirs = fast(x, Context(mask=mask)), slow(x, Context(mask=mask))
        real = torch.ones(2, 9, dtype=torch.bool) if mask is None else mask
        torch.testing.assert_close(ours[real], theirs[real], rtol=0, atol=1e-10)
        gradients = [torch.autograd.grad(y[real].square().sum(), x)[0] for y in (ours, theirs)]
        torch.testing.assert_close(*gradients, rtol=1e-7, atol=1e-9)


@every_published
def test_weights_have_the_names_they_had(make: Callable[..., Program]) -> None:
    program = make(WIDTH, 4, 32)
    names = {
        name.rpartition(".at_")[2].split(".")[0] for name, _ in built(program).named_parameters()
    }
    line = straight_line(program, WIDTH)
    assert names == {"_".join(map(str, step.path)) for step in line.steps if step.weight}
    assert program.count(SITE, Load(length=3)).params == line.count(Load(length=3)).params


@every_published
def test_flops_do_not_depend_on_what_is_fused(make: Callable[..., Program]) -> None:
    line = straight_line(make(WIDTH, 4, 32), WIDTH)
    for load in (Load(batch=2, length=9), Load(length=1, past=7)):
        assert fused(line).count(load).flops == line.count(load).flops
        assert fused(line).count(load).kept < line.count(load).kept


@pytest.mark.parametrize("name", BY_HAND)
def test_twelve_heads_compute_what_hand_written_layers_compute(name: str) -> None:
    width, heads, inner = 96, 12, 384
    make, layers = BY_HAND[name]
    attention, feedforward = layers
    assert isinstance(attention, Residual)
    assert isinstance(feedforward, Residual)
    assert isinstance(attention.inner, Attention)
    assert isinstance(feedforward.inner, FeedForward)
    stack = Stack(
        (
            attention.replace(inner=attention.inner.replace(heads=heads)),
            feedforward.replace(inner=feedforward.inner.replace(inner=inner)),
        )
    )
    site = Site(width=width, causal=True)
    torch.manual_seed(0)
    by_hand, program = (
        Builder().build(stack, site),
        Builder().build(make(width, heads, inner), site),
    )
    copy_weights(by_hand, program)
    x = torch.randn(2, 20, width)
    torch.testing.assert_close(program(x, Context()), by_hand(x, Context()), rtol=0, atol=1e-5)


@every_published
def test_the_fused_kernel_takes_what_programs_give_it(make: Callable[..., Program]) -> None:
    module = Builder().build(make(32, 4, 64), Site(width=32, causal=True))
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # anything else would be refused
        module(torch.randn(2, 8, 32), Context()).sum().backward()


# --- what is not taken ----------------------------------------------------------------------


def changed(sub: int, code: tuple[Instruction, ...]) -> Program:
    whole = transformer_program(WIDTH, 4, 32)
    subs = list(whole.subprograms)
    subs[sub] = subs[sub].replace(code=code)
    return whole.replace(subprograms=tuple(subs))


def test_scores_that_something_else_reads_stay() -> None:
    whole = transformer_program(WIDTH, 4, 32)
    code = whole.subprograms[HEAD].code
    weights = next(i for i, do in enumerate(code) if do.op == "call" and do.calls == SOFTMAX)
    twice = (*code[: weights + 1], do("square", weights + 1), do("add", weights + 1, weights + 2))
    last = code[-1].replace(first=weights + 3)
    found = ops(changed(HEAD, (*twice, last)))
    assert found["attend"] == 0
    assert found["softmax"] == 1
    assert found["mat_mul"] == 1


def test_a_norm_without_its_mean_is_not_taken_for_one() -> None:
    code = list(transformer_program(WIDTH, 4, 32).subprograms[NORM].code)
    other = [part.replace(second=0) if part.op == "divide" else part for part in code]
    assert ops(changed(NORM, tuple(other)))["norm"] == 0
    divide = next(i for i, part in enumerate(code) if part.op == "divide")
    direct = [part.replace(first=0) if i == divide else part for i, part in enumerate(code)]
    assert ops(changed(NORM, tuple(direct)))["norm"] == 0


def test_a_softmax_without_a_mask_is_not_taken_for_one() -> None:
    code = transformer_program(WIDTH, 4, 32).subprograms[SOFTMAX].code
    bare = (do("abs", 0), *code[1:])
    assert ops(changed(SOFTMAX, bare))["softmax"] == 0


def test_a_negative_scale_is_not_given_to_the_kernel() -> None:
    whole = transformer_program(WIDTH, 4, 32)
    program = whole.replace(constants=tuple(-abs(c) if c == 0.5 else c for c in whole.constants))
    found = ops(program)
    assert (found["attend"], found["softmax"]) == (0, 1)


def test_a_bias_of_several_lanes_stays_a_step() -> None:
    inner = Subprogram((do("conv1", 0), do("shift", 1)))
    program = Program((Subprogram((do("call", 0, calls=1, branches=2),)), inner), dims=(4,))
    assert ops(program)["dense"] == 0
    module: nn.Module = built(program)
    assert module(stream(), Context()).shape == (2, 9, WIDTH)


def test_the_place_of_attention_in_the_program_does_not_matter() -> None:
    whole = transformer_program(WIDTH, 4, 32)
    alone = whole.replace(subprograms=(whole.subprograms[ATTENTION], *whole.subprograms[1:]))
    assert ops(alone)["attend"] == 1
