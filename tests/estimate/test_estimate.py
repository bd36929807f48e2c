"""Estimators against what is known: closed forms, formulas written plainly, uninterrupted runs."""

import dataclasses
import json
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from formwright.arch import Architecture, arch_id, parse
from formwright.arch.counting import count
from formwright.cost import Target
from formwright.errors import FormwrightError, InputError, UnknownName
from formwright.estimate import (
    Cached,
    Combined,
    Counted,
    Diverged,
    Estimator,
    Measured,
    Proxies,
    Tabular,
    Together,
    Training,
    Work,
    estimators,
    get_proxy,
)
from formwright.estimate.proxy import Sample
from formwright.model import build, load_model
from formwright.tasks import load_task
from formwright.train import TrainConfig, train
from formwright.trial import Trial

TASK = "listops-tiny?train=200&valid=50"
QUICK = TrainConfig(steps=4, batch_tokens=512, schedule="constant", warmup=2)


@dataclass(frozen=True)
class Job:
    arch: Any
    folder: Path
    previous: Path | None = None
    seed: int = 0
    trial: Trial = dataclasses.field(default_factory=lambda: Trial(0, {}))


@pytest.fixture(scope="module")
def small() -> Architecture:
    return load_task(TASK).architecture("(sf)x2", 16)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(folder / "run" / "model").state_dict())


def test_training_gives_the_scores_of_the_task(small: Architecture, tmp_path: Path) -> None:
    values = Training(TASK, QUICK)(Job(small, tmp_path))
    _, plain = train(small, load_task(TASK), QUICK.replace(checkpoint_every=4))
    assert values["loss"] == plain.loss
    assert values["accuracy"] == plain.value
    assert values["steps"] == 4


def test_a_promoted_trial_goes_on_where_the_earlier_one_stopped(
    small: Architecture, tmp_path: Path
) -> None:
    estimator = Training(TASK, QUICK, last=1)
    first, second, whole = (tmp_path / name for name in ("first", "second", "whole"))
    estimator(Job(small, first))
    promoted = Trial(1, {}, rung=1, steps=12, continues=0)
    went_on = estimator(Job(small, second, previous=first, trial=promoted))
    at_once = estimator(Job(small, whole, trial=promoted))
    assert went_on["steps"] == at_once["steps"] == 12
    assert went_on["loss"] == at_once["loss"]
    for name, value in weights(whole).items():
        assert torch.equal(weights(second)[name], value)
    assert not list((second / "run").glob("checkpoint-*")), "the last stage is never continued"
    assert not (first / "run" / "model").exists(), "the first stage is not what anyone wants"
    log = (second / "run" / "log.jsonl").read_text().splitlines()
    assert json.loads(log[0])["step"] > 4, "the first steps were taken again"


def test_divergence_is_a_verdict(small: Architecture, tmp_path: Path) -> None:
    wild = QUICK.replace(lr=9.0, clip=0.0, steps=60, warmup=0, log_every=5)
    with pytest.raises(Diverged, match="training diverged"):
        Training(TASK, wild)(Job(small, tmp_path))


def test_counts_are_the_counts(small: Architecture, tmp_path: Path) -> None:
    values = Counted()(Job(small, tmp_path))
    assert values["params"] == count(small).params
    assert values["flops"] == count(small).flops


def test_latency_is_measured_on_the_target(small: Architecture, tmp_path: Path) -> None:
    values = Measured(Target(length=16), seconds=0.1)(Job(small, tmp_path))
    assert 0 < values["latency_low"] <= values["latency"] <= values["latency_high"]


def test_estimators_can_be_handed_to_other_processes() -> None:
    both = Together(Counted(), Training(TASK, QUICK))
    assert pickle.loads(pickle.dumps(both)).parts == both.parts


class Counting(Estimator):
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, work: Work) -> Mapping[str, float]:
        self.calls += 1
        return {"value": float(self.calls)}


def test_nothing_is_estimated_twice_also_in_another_program(
    small: Architecture, tmp_path: Path
) -> None:
    inner, path = Counting(), tmp_path / "values.jsonl"
    cached = Cached(inner, path)
    assert cached(Job(small, tmp_path)) == cached(Job(small, tmp_path)) == {"value": 1.0}
    assert cached(Job(small, tmp_path, seed=1)) == {"value": 1.0}, "each trial has a seed"
    assert cached(Job(small, tmp_path, trial=Trial(0, {}, rung=1))) == {"value": 2.0}
    again = Cached(Counting(), path)
    assert again(Job(small, tmp_path, seed=2)) == {"value": 1.0}
    assert again(Job(small, tmp_path, trial=Trial(9, {}, rung=1))) == {"value": 2.0}


def test_seeds_are_told_apart_where_asked_for(small: Architecture, tmp_path: Path) -> None:
    cached = Cached(Counting(), by_seed=True)
    found = [cached(Job(small, tmp_path, seed=seed))["value"] for seed in (0, 1, 0)]
    assert found == [1.0, 2.0, 1.0]


def test_estimators_that_share_a_file_are_told_apart(small: Architecture, tmp_path: Path) -> None:
    path, job = tmp_path / "values.jsonl", Job(small, tmp_path)
    short, whole = Counted(length=8), Counted()
    for estimator in (short, whole, Together(short), Together(whole, short)):
        assert Cached(estimator, path)(job) == estimator(job)
    assert Cached(Counting(), path, name="a")(job) == {"value": 1.0}
    known = Counting()
    assert Cached(known, path, name="a")(job) == Cached(known, path, name="b")(job)
    assert known.calls == 1


def test_what_follows_a_torn_line_is_kept(small: Architecture, tmp_path: Path) -> None:
    path = tmp_path / "values.jsonl"
    Cached(Counting(), path)(Job(small, tmp_path))
    with open(path, "ab") as file:
        file.write('{"key": "torn by a cra\u00e9'.encode()[:-1])  # in the middle of a letter
    Cached(Counting(), path)(Job(small, tmp_path, trial=Trial(0, {}, rung=1)))
    unasked = Counting()
    for rung in (0, 1):
        Cached(unasked, path)(Job(small, tmp_path, trial=Trial(0, {}, rung=rung)))
    assert unasked.calls == 0


def test_a_table_is_replayed(small: Architecture, tmp_path: Path) -> None:
    table = Tabular({arch_id(small): {"loss": 1.5}})
    assert table(Job(small, tmp_path)) == {"loss": 1.5}
    with pytest.raises(FormwrightError, match="no row"):
        table(Job(parse("sf").bind(small.frame), tmp_path))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(estimators))
def test_every_proxy_gives_a_number_that_its_seed_repeats(name: str, small: Architecture) -> None:
    estimate = Proxies((name,), TASK)
    first = estimate.scores(small)[name]
    assert first == estimate.scores(small)[name]
    assert torch.isfinite(torch.tensor(first))
    assert get_proxy(name).evidence
    assert get_proxy(name).paper.startswith("https://")


@pytest.mark.parametrize("name", sorted(set(estimators) - {"params", "width"}))
def test_proxies_tell_a_deep_model_from_a_shallow_one(name: str) -> None:
    task = load_task(TASK)
    estimate = Proxies((name,), TASK)
    scores = [estimate.scores(task.architecture(text, 16))[name] for text in ("sf", "(sf)x4")]
    assert scores[0] != scores[1]


def test_gradient_scores_are_their_formulas(small: Architecture) -> None:
    task = load_task(TASK)
    batch = task.sampler(batch_tokens=1024, seed=0).batch(0)
    model = build(small, seed=0)
    task.loss(model, batch).backward()
    norms = snips = 0.0
    for name, p in model.named_parameters():
        if p.grad is not None and name.startswith(("stacks.", "norms.")):
            norms += float(p.grad.double().norm())
            snips += float((p.detach() * p.grad).double().abs().sum())
    found = Proxies(("grad_norm", "snip"), TASK).scores(small)
    assert found["grad_norm"] == pytest.approx(norms, rel=1e-5)
    assert found["snip"] == pytest.approx(snips, rel=1e-5)


def test_head_importance_is_zero_where_the_output_map_is_zero(small: Architecture) -> None:
    task = load_task(TASK)
    batch = task.sampler(batch_tokens=1024, seed=0).batch(0)

    class Silent(Sample):
        def model(self) -> Any:
            model = super().model()
            for name, p in model.named_parameters():
                if name.endswith("out.weight"):
                    torch.nn.init.zeros_(p)
            return model

    score = get_proxy("head_importance").score
    assert score(Silent(small, task, batch, 0)) == 0
    assert score(Sample(small, task, batch, 0)) > 0


def test_a_combination_learns_which_proxy_matters() -> None:
    task = load_task(TASK)
    texts = ["sf", "ssf", "sff", "(sf)x2", "(sff)x2", "(sf)x3", "(sf)x4", "sss"]
    archs = [task.architecture(text, width) for text in texts for width in (8, 16)]
    quality = [float(count(arch).non_embedding) for arch in archs]
    fitted = Combined.fit(Proxies(("decoder_params", "width")), archs, quality)
    order = sorted(range(len(archs)), key=lambda i: fitted.score(archs[i]))
    truth = sorted(range(len(archs)), key=lambda i: quality[i])
    agree = sum(abs(order.index(i) - truth.index(i)) for i in range(len(archs)))
    assert agree <= len(archs)
    with pytest.raises(InputError, match="at least 6"):
        Combined.fit(Proxies(("width",)), archs[:2], quality[:2])


def test_an_unknown_proxy_gets_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'synflow'"):
        get_proxy("sinflow")


def test_an_estimator_of_another_kind_is_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(estimators._things, "table", lambda task: Tabular({}))
    with pytest.raises(InputError, match="'table' is no training-free score"):
        Proxies(("table",)).scores(parse("sf"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "s f1 s f2 s f3 s f4 s f5 where s=residual(attention(2)), "
            + ", ".join(
                f"f{i}=residual(feedforward({n}))"
                for i, n in enumerate((1071, 640, 1286, 800, 1871), 1)
            )
            + " in decoder(128, position=learned) for frame(1000, 64, lm)",
            1_790_372,
        ),
    ],
)
def test_decoder_parameters_are_the_worked_integer(text: str, expected: int) -> None:
    assert Proxies(("decoder_params",)).scores(parse(text)) == {"decoder_params": expected}


def test_flops_on_a_target_count_what_is_remembered(tmp_path: Path) -> None:
    """Attention reads all that is remembered, and feed-forward only what is new."""

    def flops(layers: str, counted: Counted) -> float:
        arch = parse(f"{layers} in gpt2(16) for frame(9, 16, lm)").check()
        return counted(Job(arch, tmp_path))["flops"]

    remembering, alone = Counted.on(Target(length=4, past=12)), Counted(4)
    assert flops("s", remembering) > flops("s", alone)
    assert flops("f", remembering) == flops("f", alone)
    assert Counted.on(None) == Counted()
