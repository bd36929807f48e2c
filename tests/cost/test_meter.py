"""Meters, and what one timed run computes."""

import time
from typing import Any

import pytest
import torch
from tests.cost.noisy_machine import NoisyMachine
from tests.helpers import ZOO_FAMILIES
from torch.utils.flop_counter import FlopCounterMode

from formwright.arch import Architecture, parse
from formwright.cost import Meter, Target, calibrate, compare, measure
from formwright.cost import meter as meter_module
from formwright.cost.blank import Arena, blank_model
from formwright.cost.meter import DEFAULT_REFERENCE, reference_of
from formwright.cost.step import flops_of, make_step
from formwright.errors import InputError
from formwright.model import Model, build
from formwright.ops.past import Past

GPT = "(sf)x2 in gpt2(32) for frame(50, 24, lm)"


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> NoisyMachine:
    """Meters that take an architecture's width for its milliseconds, on a simulated machine."""
    machine = NoisyMachine(0)

    def prepare(arch: Architecture, target: Target, arena: Any = None) -> Any:
        return machine.taking(arch.backbone.width / 10)

    monkeypatch.setattr(meter_module, "prepare", prepare)
    monkeypatch.setattr(meter_module, "clock_for", lambda threads: machine.clock)
    monkeypatch.setattr(time, "perf_counter", machine.clock)
    monkeypatch.setattr(meter_module, "perf_counter", machine.clock)
    return machine


def wide(width: int) -> Architecture:
    return parse(f"sf in gpt2({width}) for frame(50, 24, lm)")


def test_milliseconds_are_the_ratio_times_the_calibrated_reference(
    simulated: NoisyMachine,
) -> None:
    meter = Meter(Target(reference_ms=100.0))
    found = meter.measure(wide(128))
    assert found.low <= 128 / 256 <= found.high  # the built-in reference is 256 wide
    assert found.ms == pytest.approx(100.0 * found.ratio)
    assert found.ms == pytest.approx(50, rel=0.1)


def test_a_calibrated_time_is_not_used_for_another_reference(simulated: NoisyMachine) -> None:
    meter = Meter(Target(reference_ms=100.0), wide(64))
    assert meter.reference_ms < 20


def test_compare_and_measure_take_their_ratios_to_what_was_given(simulated: NoisyMachine) -> None:
    found = compare(wide(96), wide(64), seconds=3.0)
    assert found.low <= 1.5 <= found.high
    first, second = measure([wide(32), wide(64)], against=wide(64), seconds=3.0)
    assert first.ratio == pytest.approx(0.5, rel=0.1)
    assert second.ratio == pytest.approx(1.0, rel=0.1)


def test_calibrating_binds_a_target_to_this_machine(simulated: NoisyMachine) -> None:
    made = calibrate(Target(), seconds=0.5)
    assert made.reference_ms is not None
    assert made.check_here() == ()
    assert made.fingerprint


def test_a_targets_own_reference_may_be_notation_or_json() -> None:
    from formwright.arch import to_json

    arch = wide(64)
    assert reference_of(Target(reference=GPT)) == parse(GPT)
    assert reference_of(Target(reference=to_json(arch))) == arch
    assert reference_of(Target()) == parse(DEFAULT_REFERENCE)


@pytest.mark.parametrize("text", ZOO_FAMILIES.values(), ids=ZOO_FAMILIES)
def test_a_blank_model_computes_finite_numbers(text: str) -> None:
    model = blank_model(parse(text))
    step, arguments = make_step(model, Target(length=16, batch=2))
    with torch.inference_mode():
        (answer,) = step(*arguments)
    assert answer.isfinite().all()
    assert float(answer.abs().max()) > 0


def test_an_arena_serves_one_model_after_the_other_from_the_same_memory() -> None:
    arena = Arena()
    first = blank_model(wide(64), arena)
    places = [p.data_ptr() for p in first.parameters()]
    arena.reset()
    second = blank_model(wide(64), arena)
    assert [p.data_ptr() for p in second.parameters()] == places
    assert len(set(places)) == len(places)
    assert all(place % 64 == 0 for place in places)
    assert all(float(p.abs().sum()) > 0 for p in second.parameters())


def outputs(model: Model, target: Target) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    step, arguments = make_step(model.eval(), target)
    with torch.inference_mode():
        return step(*arguments)[0], arguments


def test_prefill_gives_the_scores_of_the_last_position() -> None:
    model = build(parse(GPT))
    answer, (tokens,) = outputs(model, Target(length=9, batch=2, phase="prefill"))
    torch.testing.assert_close(answer, model(tokens)[:, -1:])


@pytest.mark.parametrize("family", ["gpt2", "llama", "t5_decoder", "primer", "translator"])
def test_decoding_computes_what_a_whole_pass_gives_for_the_last_token(family: str) -> None:
    model = build(parse(ZOO_FAMILIES[family]))
    answer, (new, *_) = outputs(model, Target(length=6, batch=2, phase="decode", past=5))
    with torch.inference_mode():  # make_step draws source, earlier and new words from one seed
        generator = torch.Generator().manual_seed(0)
        beside = {}
        if family == "translator":
            source = torch.randint(50, (2, 6), generator=generator)
            beside = {"source": source}
        before = torch.randint(50, (2, 5), generator=generator)
        whole = model(torch.cat((before, new), dim=1), **beside)
    torch.testing.assert_close(answer, whole[:, -1:], rtol=1e-4, atol=1e-5)


def test_a_pass_with_memory_reads_the_new_tokens_after_the_remembered_ones() -> None:
    text = "(sf)x2 in transformer_xl(32) for frame(50, 24, lm)"
    arch = parse(text)
    plain = arch.backbone.embedding.replace(clusters=(), divide=1, size=None)
    model = build(arch.replace(backbone=arch.backbone.replace(embedding=plain)))
    answer, (new, *_) = outputs(model, Target(length=4, past=10))
    past = Past()
    with torch.inference_mode():
        before = torch.randint(50, (1, 10), generator=torch.Generator().manual_seed(0))
        model(before, past=past)
        torch.testing.assert_close(answer, model(new, past=past))


def test_an_adaptive_model_scores_words_as_its_loss_does() -> None:
    arch = parse("(sf)x2 in transformer_xl(32) for frame(50, 24, lm)")
    few = arch.backbone.embedding.replace(clusters=(20, 30), divide=1, size=None)
    model = build(arch.replace(backbone=arch.backbone.replace(embedding=few)))
    answer, (tokens,) = outputs(model, Target(length=7))
    with torch.inference_mode():
        loss = model.loss(tokens, torch.zeros_like(tokens))
    torch.testing.assert_close(-answer, loss)


@pytest.mark.parametrize(
    "target",
    [
        Target(length=12, batch=2),
        Target(length=12, phase="prefill"),
        Target(length=3, past=8, phase="decode"),
        Target(length=4, past=8),
    ],
    ids=lambda target: target.text,
)
def test_the_flops_of_a_step_are_those_torch_counts(target: Target) -> None:
    model = build(parse(GPT)).eval()
    step, arguments = make_step(model, target)
    step, arguments = step.to("meta"), tuple(t.to("meta") for t in arguments)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        step(*arguments)
    assert flops_of(model.arch, target) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("family", "target", "says"),
    [
        ("bert", Target(length=8, phase="prefill"), "use phase=pass"),
        ("lra", Target(length=8, past=3, phase="decode"), "use phase=pass"),
        ("bert", Target(length=8, past=3), "only a decoder remembers"),
        ("translator", Target(length=8, past=3), "only a decoder remembers"),
        ("bert", Target(length=99), "longer than the 24"),
    ],
)
def test_a_target_an_architecture_cannot_run_on_is_refused(
    family: str, target: Target, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        outputs(build(parse(ZOO_FAMILIES[family])), target)


def test_measuring_leaves_the_number_of_threads_alone() -> None:
    before = torch.get_num_threads()
    found = Meter(Target(length=8), calibration=0.02).measure(wide(16), seconds=0.05)
    assert torch.get_num_threads() == before
    assert found.rounds >= 3
    assert 0 < found.low <= found.ratio <= found.high
    assert found.ms > 0
