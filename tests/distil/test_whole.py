"""Students learn from the whole teacher; prices add up; blocks are chosen under limits."""

from pathlib import Path
from random import Random

import pytest
import torch

from formwright.arch import Identity, Stack
from formwright.arch.counting import count
from formwright.distil.blocks import Blocks, BlocksConfig, spreads
from formwright.distil.blockwise import BlockTraining
from formwright.distil.library import NOTHING, places_of, student
from formwright.distil.prices import counted, timed, together, worthwhile
from formwright.distil.teacher import Teacher, thinned
from formwright.distil.whole import Teaching, agreement, compared_states, distilled, teaching_loss
from formwright.errors import InputError
from formwright.model import build
from formwright.tasks.base import IGNORED
from formwright.train import TrainConfig

SHORT = BlocksConfig(
    training=BlockTraining(steps=2), batches=2, held=2, batch_tokens=96, rounds=1, changes=2
)


def milliseconds(arch: object) -> float:
    """A clock that only counts."""
    return count(arch, length=16).flops / 1e5  # type: ignore[arg-type]


def blocks_of(teacher: Teacher, folder: Path) -> Blocks:
    return Blocks(teacher, folder, SHORT, measure=milliseconds)


def test_the_teachers_copy_has_nothing_to_learn_but_the_task(teacher: Teacher) -> None:
    (batch,) = teacher.calibration(1, batch_tokens=96)
    loss = teaching_loss(teacher, Teaching(task=0.0), teacher.model.arch)
    assert float(loss(teacher.model, batch, None)) == pytest.approx(0, abs=1e-5)
    loss = teaching_loss(teacher, Teaching(task=1.0), teacher.model.arch)
    plain = teacher.task.loss(teacher.model, batch)
    assert float(loss(teacher.model, batch, None)) == pytest.approx(float(plain), rel=1e-4)


def test_students_learn_without_noise_unless_asked_for() -> None:
    config = TrainConfig(steps=1, dropout=0.1, attention_dropout=0.2)
    plain, noisy = (Teaching(**how).numbers(config) for how in ({}, {"dropout": 0.3}))
    assert (plain.dropout, plain.attention_dropout) == (0.0, 0.0)
    assert (noisy.dropout, noisy.attention_dropout) == (0.3, 0.3)
    with pytest.raises(InputError, match="dropout=1"):
        Teaching(dropout=1.0)


def test_states_are_compared_where_the_next_layer_stands(encoder: Teacher) -> None:
    arch = encoder.model.arch
    layers = list(arch.layers.layers)
    assert compared_states(arch, arch) == [1, 2, 3, 4]
    layers[1] = layers[2] = Identity()
    fewer = arch.replace(layers=Stack(tuple(layers)))
    assert compared_states(fewer, arch) == [3, 4]
    narrow = arch.replace(backbone=arch.backbone.replace(width=8))
    assert compared_states(narrow, arch) == []


def test_a_student_comes_closer_to_its_teacher(encoder: Teacher) -> None:
    arch = encoder.model.arch
    batches = list(encoder.task.batches("valid", batch_tokens=256))
    begun = build(arch, seed=5)
    assert agreement(encoder.model, encoder, batches) == 1
    config = TrainConfig(steps=40, batch_tokens=128, lr=3e-3, warmup=2, score_batches=1)
    loss = teaching_loss(encoder, Teaching(), arch)
    with torch.no_grad():
        before = float(loss(begun.eval(), batches[0], None))
    model, _ = distilled(begun, encoder, Teaching(), config)
    with torch.no_grad():
        assert float(loss(model.eval(), batches[0], None)) < 0.7 * before


def test_weights_of_losses_are_checked() -> None:
    with pytest.raises(InputError, match="weigh losses"):
        Teaching(answers=-1)


def test_counted_prices_are_those_of_the_student(teacher: Teacher) -> None:
    arch = teacher.model.arch
    places, rng = places_of(arch), Random(2)
    prices = counted(arch, places, None)
    for _ in range(5):
        choice = [rng.randrange(len(place.alternatives)) for place in places]
        made = count(student(arch, places, choice))
        for name in ("params", "flops"):
            each = zip(prices.each[name], choice, strict=True)
            total = prices.base[name] + sum(row[taken] for row, taken in each)
            assert total == pytest.approx(getattr(made, name))


def test_timed_prices_add_up_to_the_teacher(teacher: Teacher) -> None:
    arch = teacher.model.arch
    places, seen = places_of(arch), list[float]()
    prices = timed(arch, places, milliseconds, on_measured=lambda a, b: seen.append(a / b))
    assert prices.whole("latency") == pytest.approx(milliseconds(arch))
    assert seen == sorted(seen)
    assert seen[-1] == 1
    gone = places[0].index(NOTHING)
    assert gone is not None
    assert prices.each["latency"][0][gone] == 0
    both = together(counted(arch, places, None), prices)
    for row, place in zip(worthwhile(both, places, ["latency"]), places, strict=True):
        own = prices.each["latency"][place.number]
        assert row[0] == 0
        assert all(own[i] < own[0] for i in row[1:])


def test_what_is_found_keeps_its_limit_and_is_no_worse_than_simple_students(
    teacher: Teacher, tmp_path: Path
) -> None:
    blocks = blocks_of(teacher, tmp_path)
    most = {"latency": blocks.all_prices.whole("latency") / 1.6}
    choice, rounds = blocks.find(most)
    assert blocks.choices.keeps(choice, most)
    assert milliseconds(blocks.architecture(choice)) <= most["latency"] * 1.001
    assert rounds[0]["expected"] <= blocks.choices.score(choice) + 1e-9
    simple = [
        blocks.fewer_layers(most),
        blocks.equally_narrow(most),
        blocks.at_random(most, Random(0)),
    ]
    slack = {"latency": 1.1 * most["latency"]}
    for other in simple:
        if other is not None:
            assert blocks.choices.keeps(other, slack)
        if other is not None and blocks.choices.keeps(other, most):
            assert blocks.choices.score(other) >= rounds[0]["expected"] - 1e-9
    assert blocks.narrowed(blocks.widened(choice)) == choice


def test_fewer_layers_are_whole_layers(encoder: Teacher, tmp_path: Path) -> None:
    blocks = blocks_of(encoder, tmp_path)
    found = blocks.fewer_layers({"latency": blocks.all_prices.whole("latency") * 0.6})
    assert found is not None
    names = blocks.names(found)
    assert sorted([names[:2], names[2:]]) == [["nothing", "nothing"], ["whole", "whole"]]
    assert spreads(6, 2) == [(0, 3), (2, 5), (0, 5)]


def test_fewer_symbols_are_scored(decoder: Teacher) -> None:
    (batch,) = decoder.calibration(1, batch_tokens=96)
    fewer = thinned(batch, 10)
    assert int((fewer.targets != IGNORED).sum()) == 10 == fewer.count
    kept = fewer.targets != IGNORED
    assert torch.equal(fewer.targets[kept], batch.targets[kept])


def test_a_uniform_choice_that_is_closer_to_the_teacher_is_where_the_search_goes_on(
    encoder: Teacher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what is found is never behind the best uniform choice, whatever the sums said."""
    blocks = blocks_of(encoder, tmp_path)
    limits = {"latency": 0.7 * blocks.all_prices.whole("latency")}
    plain = blocks.equally_narrow(limits)
    assert plain is not None
    real = blocks.judge.divergence
    monkeypatch.setattr(blocks.judge, "divergence", lambda c: 0.0 if c == plain else 1 + real(c))
    found, rounds = blocks.find(limits)
    assert found == plain
    assert list(plain) in [told["choice"] for told in rounds]


def test_a_model_is_as_far_apart_as_the_choice_that_it_is(encoder: Teacher, tmp_path: Path) -> None:
    blocks = blocks_of(encoder, tmp_path)
    choice = blocks.at_random({"latency": 0.8 * blocks.all_prices.whole("latency")}, Random(1))
    assert choice is not None
    apart = blocks.judge.apart(blocks.model(choice))
    assert apart == pytest.approx(blocks.judge.divergence(choice), rel=1e-4)
    assert blocks.judge.apart(encoder.model) == pytest.approx(0.0, abs=1e-6)
