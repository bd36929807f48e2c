"""Finals: trained alike, the best weights kept, with an interval and a slope, and resumable."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from formwright.arch import Architecture
from formwright.errors import InputError, Stopped
from formwright.estimate import Diverged, Final
from formwright.estimate.final import _Trainings
from formwright.estimate.spread import interval, standard_error
from formwright.estimate.training import read_log
from formwright.model import build, load_model
from formwright.tasks import load_task
from formwright.train import TrainConfig, rate_for, regularised, train
from formwright.train.regularise import epochs
from formwright.trial import Trial

TASK = "listops-tiny?train=60&valid=60"
QUICK = TrainConfig(batch_tokens=512, warmup=4, lr=1e-3, score_batches=None)
STEPS = 24
CLOCKED = {"tokens_per_second", "step_seconds", "processor_share"}


@dataclass
class Job:
    arch: Any
    folder: Path
    previous: Path | None = None
    parents: tuple[Path, ...] = ()
    seed: int = 0
    trial: Trial = field(default_factory=lambda: Trial(0, {}, steps=STEPS))
    stop: Any = None


@pytest.fixture(scope="module")
def small() -> Architecture:
    return load_task(TASK).architecture("(sf)x2", 16)


def plain(values: Any) -> dict[str, float]:
    return {name: value for name, value in values.items() if name not in CLOCKED}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(folder / "run" / "model").state_dict())


def test_a_final_is_the_training_that_it_says(small: Architecture, tmp_path: Path) -> None:
    job = Job(small, tmp_path, seed=7)
    name = TASK.replace("train=60", "train=600")
    values = Final(name, QUICK)(job)
    task = load_task(name)
    config = QUICK.replace(
        steps=STEPS,
        lr=rate_for(small, QUICK.lr),
        schedule="wsd",
        seed=7,
        evaluate_every=1,
        valid_batches=2,
        keep_best=True,
        checkpoint_every=STEPS,
    )
    model, wanted = train(small, task, regularised(config, task, small, STEPS))
    assert {name: values[name] for name in wanted.scores} == wanted.scores
    assert values["steps"] == wanted.steps
    assert values["epochs"] == epochs(QUICK, task, wanted.steps)
    assert (values["seeds"], values["rate"]) == (1, 1)
    for name, value in model.state_dict().items():
        assert torch.equal(weights(tmp_path)[name], value)
    assert {p.name for p in tmp_path.iterdir()} == {"run", "curve.json", "values.json"}
    assert not list(tmp_path.glob("run/checkpoint-*"))


def test_a_training_that_gave_up_lets_its_rate_fall(small: Architecture, tmp_path: Path) -> None:
    still = QUICK.replace(lr=1e-9)  # nothing gets better
    final, job, task = Final(TASK, still), Job(small, tmp_path), load_task(TASK)
    values = final(job)
    assert values["steps"] == 7 + 3, "a first look, six that are no better, and the fall"
    planned = final.numbers(job, task, STEPS)
    assert planned.patience == 6
    _, wanted = train(small, task, planned.replace(steps=10, patience=0))
    assert {name: values[name] for name in wanted.scores} == wanted.scores
    curve = json.loads((tmp_path / "curve.json").read_text())
    assert curve["seeds"][0]["steps"] == [*range(1, 11)]
    last = read_log(tmp_path / "run")[-2]
    assert (last["kind"], last["rate"]) == ("step", 0.0)
    assert {p.name for p in tmp_path.iterdir()} == {"run", "curve.json", "values.json"}


def test_several_seeds_are_averaged_and_the_best_is_kept(
    small: Architecture, tmp_path: Path
) -> None:
    final = Final(TASK, QUICK, seeds=3)
    values = final(Job(small, tmp_path / "all", seed=5))
    alone = [Final(TASK, QUICK)(Job(small, tmp_path / f"{seed}", seed=seed)) for seed in (5, 6, 7)]
    found = [one["accuracy"] for one in alone]
    assert values["seeds"] == 3
    assert values["accuracy"] == pytest.approx(sum(found) / 3)
    assert values["loss"] == pytest.approx(sum(one["loss"] for one in alone) / 3)
    assert values["accuracy_low"] < values["accuracy"] < values["accuracy_high"]
    best = tmp_path / f"{5 + found.index(max(found))}"
    for name, value in weights(best).items():
        assert torch.equal(weights(tmp_path / "all")[name], value)
    curve = json.loads((tmp_path / "all" / "curve.json").read_text())
    assert curve["metric"] == "accuracy"
    assert [seed["seed"] for seed in curve["seeds"]] == [5, 6, 7]
    for seed in curve["seeds"]:
        assert len(seed["steps"]) == len(seed["accuracy"]) > 1


def test_the_best_of_several_rates_is_taken(small: Architecture, tmp_path: Path) -> None:
    final = Final(TASK, QUICK, rates=(1e-6, 3.0), pilot=1.0)
    values = final(Job(small, tmp_path))
    assert values["rate"] == 3.0
    alone = Final(TASK, QUICK.replace(lr=3 * QUICK.lr))(Job(small, tmp_path / "alone"))
    assert values["loss"] == pytest.approx(alone["loss"])
    assert json.loads((tmp_path / "pilot.json").read_text())["best"] == 3.0
    assert not list(tmp_path.glob("pilot-*"))


def test_a_rate_that_diverges_is_not_taken(small: Architecture, tmp_path: Path) -> None:
    wild = QUICK.replace(clip=0.0, warmup=0)
    values = Final(TASK, wild, rates=(1500.0, 1.0), pilot=1.0)(Job(small, tmp_path))
    assert values["rate"] == 1.0


def test_where_every_seed_diverges_it_is_a_verdict(small: Architecture, tmp_path: Path) -> None:
    wild = QUICK.replace(clip=0.0, warmup=0, lr=1.5)
    for _ in range(2):
        with pytest.raises(Diverged, match="training diverged"):
            Final(TASK, wild, seeds=2)(Job(small, tmp_path))


def test_a_final_that_was_stopped_ends_the_same(small: Architecture, tmp_path: Path) -> None:
    final = Final(TASK, QUICK, seeds=2, rates=(0.5, 1.0))
    asked = 0

    def counted() -> bool:
        nonlocal asked
        asked += 1
        return False

    whole = final(Job(small, tmp_path / "whole", stop=counted))
    for after in range(3, asked, 17):
        folder = tmp_path / f"{after}"
        left = iter([False] * after + [True])
        with pytest.raises(Stopped):
            final(Job(small, folder, stop=lambda: next(left)))  # noqa: B023
        assert plain(final(Job(small, folder, stop=lambda: False))) == plain(whole)
        for name, value in weights(tmp_path / "whole").items():
            assert torch.equal(weights(folder)[name], value)


def test_a_final_that_was_killed_while_it_tidied_up_is_not_trained_again(
    small: Architecture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = Final(TASK, QUICK, seeds=2)
    with monkeypatch.context() as patch:
        patch.setattr("formwright.estimate.final._tidy", None)
        with pytest.raises(TypeError):
            final(Job(small, tmp_path))
    monkeypatch.setattr("formwright.estimate.final.train", None)
    first, again = final(Job(small, tmp_path)), final(Job(small, tmp_path))
    assert first == again
    assert weights(tmp_path)
    assert not list(tmp_path.glob("seed-*"))


def test_the_slope_is_what_the_metric_gains_per_doubling(
    small: Architecture, tmp_path: Path
) -> None:
    trainings = _Trainings(Final(TASK, QUICK), Job(small, tmp_path), load_task(TASK))
    short = {"planned": 20, "steps": [6, 14, 15], "accuracy": [0.1, 0.2, 0.3]}
    assert trainings.slope(short) is None
    found = {"planned": 20, "steps": [6, 7, 14, 15], "accuracy": [9.0, 0.4, 0.6, 9.0]}
    assert trainings.slope(found) == pytest.approx((0.2, 0.2)), "two looks tell no error"
    trainings.sign = -1  # a metric that should be small
    assert trainings.slope(found) == pytest.approx((-0.2, 0.2))
    line: dict[str, Any] = {"planned": 100, "steps": [35, 40, 50, 70]}
    line["accuracy"] = [0.5 * float(np.log2(step)) for step in line["steps"]]
    assert trainings.slope(line) == pytest.approx((-0.5, 0.0), abs=1e-9)
    line["accuracy"][1] += 0.1
    noisy = trainings.slope(line)
    assert noisy is not None
    assert 0.05 < noisy[1] < 0.3


def test_finals_need_steps_and_sense(small: Architecture, tmp_path: Path) -> None:
    timed = QUICK.replace(steps=None, seconds=5)
    with pytest.raises(InputError, match="number of steps"):
        Final(TASK, timed)(Job(small, tmp_path, trial=Trial(0, {})))
    with pytest.raises(InputError, match="at least one seed"):
        Final(TASK, QUICK, seeds=0)


# --- intervals --------------------------------------------------------------------------


def test_the_error_of_an_accuracy_is_that_of_a_share(small: Architecture) -> None:
    task = load_task(TASK)
    error = standard_error(task, build(small), {"accuracy": 0.25, "loss": 1.0}, QUICK)
    assert error == pytest.approx(math.sqrt(0.25 * 0.75 / 60))


def test_the_error_of_a_loss_is_its_spread_over_batches() -> None:
    task = load_task("stdlib?length=32")
    model = build(task.architecture("sf", 16))
    config = QUICK.replace(batch_tokens=128, score_batches=6)
    scores = task.score(model, "valid", batch_tokens=128, limit=6)
    with torch.no_grad():
        each = [
            float(task.loss(model, batch))
            for batch, _ in zip(task.batches("valid", batch_tokens=128), range(6), strict=False)
        ]
    spread = float(torch.tensor(each, dtype=torch.float64).std()) / math.sqrt(6)
    assert standard_error(task, model, scores, config) == pytest.approx(spread / math.log(2))


def test_an_interval_joins_seeds_and_examples() -> None:
    assert interval([0.5], [0.1]) == pytest.approx((0.5 - 0.196, 0.5 + 0.196))
    low, high = interval([0.4, 0.5, 0.6], [0.1, 0.1, 0.1])
    half = math.hypot(0.196, 4.303 * 0.1 / math.sqrt(3))
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half))
    narrow, wide = (interval([0.5 - d, 0.5 + d], [0.0, 0.0]) for d in (0.01, 0.02))
    assert wide[1] - wide[0] == pytest.approx(2 * (narrow[1] - narrow[0]))
