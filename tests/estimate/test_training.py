"""Training as an estimate: a trunk that goes on, branches that cool down, its pace and slope."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from formwright.arch import Architecture
from formwright.errors import InputError, Stopped
from formwright.estimate import Diverged, Training
from formwright.estimate.training import cooled, slope_of
from formwright.model import load_model
from formwright.tasks import load_task
from formwright.train import TrainConfig, rate_for, train
from formwright.trial import Trial

TASK = "listops-tiny?train=200&valid=50"
QUICK = TrainConfig(steps=8, batch_tokens=512, schedule="constant", warmup=2, log_every=2)
CLOCKED = {"tokens_per_second", "step_seconds", "processor_share"}


@dataclass
class Job:
    arch: Any
    folder: Path
    previous: Path | None = None
    parents: tuple[Path, ...] = ()
    seed: int = 0
    trial: Trial = field(default_factory=lambda: Trial(0, {}))
    stop: Any = None


@pytest.fixture(scope="module")
def small() -> Architecture:
    return load_task(TASK).architecture("(sf)x2", 16)


def plain(values: Any) -> dict[str, float]:
    return {name: value for name, value in values.items() if name not in CLOCKED}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_model(folder / "run" / "model").state_dict())


def test_a_trial_is_judged_after_its_cool_down(small: Architecture, tmp_path: Path) -> None:
    values = Training(TASK, QUICK, cooldown=0.3)(Job(small, tmp_path))
    config = cooled(QUICK, 8, 3)
    model, wanted = train(small, load_task(TASK), config)
    assert wanted.steps == 11
    assert values["loss"] == wanted.loss
    assert (values["steps"], values["cooldown_steps"]) == (8, 3)
    for name, value in model.state_dict().items():
        assert torch.equal(weights(tmp_path)[name], value)
    assert not (tmp_path / "branch").exists()
    assert not list(tmp_path.glob("*/checkpoint-*")), "the last stage is never continued"


def test_a_promoted_trial_goes_on_without_the_cool_down(
    small: Architecture, tmp_path: Path
) -> None:
    estimator = Training(TASK, QUICK, last=1, cooldown=0.3)
    first, second, whole = (tmp_path / name for name in ("first", "second", "whole"))
    estimator(Job(small, first))
    assert not (first / "run" / "model").exists()
    promoted = Trial(1, {}, rung=1, steps=20, continues=0)
    went_on = estimator(Job(small, second, previous=first, trial=promoted))
    at_once = estimator(Job(small, whole, trial=promoted))
    assert went_on["loss"] == at_once["loss"]
    assert went_on["cooldown_steps"] == 6
    for name, value in weights(whole).items():
        assert torch.equal(weights(second)[name], value)


def test_a_cool_down_that_was_stopped_ends_the_same(small: Architecture, tmp_path: Path) -> None:
    estimator = Training(TASK, QUICK, cooldown=0.5)
    whole = estimator(Job(small, tmp_path / "whole"))
    for asked in range(1, 14):
        left = iter([False] * (asked - 1) + [True])
        folder = tmp_path / f"{asked}"
        with pytest.raises(Stopped):
            estimator(Job(small, folder, stop=lambda: next(left)))  # noqa: B023
        assert plain(estimator(Job(small, folder, stop=lambda: False))) == plain(whole)


def test_a_trial_that_was_killed_while_it_tidied_up_is_not_trained_again(
    small: Architecture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimator = Training(TASK, QUICK, cooldown=0.5)
    whole = estimator(Job(small, tmp_path / "whole"))
    tidy = Training._tidy
    for kept in ("nothing", "the model", "all"):
        folder = tmp_path / kept

        def killed(self: Training, run: Path, *, last: bool, kept: str = kept) -> None:
            if kept == "the model":
                (run.with_name("branch") / "model").rename(run / "model")
            if kept == "all":
                tidy(self, run, last=last)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(Training, "_tidy", killed)
            with pytest.raises(KeyboardInterrupt):
                estimator(Job(small, folder))
            patch.setattr(Training, "_tidy", tidy)
            patch.setattr("formwright.estimate.training.train", None)
            again = estimator(Job(small, folder))
        assert plain(again) == plain(whole)
        assert all(
            torch.equal(weights(folder)[n], v) for n, v in weights(tmp_path / "whole").items()
        )


def test_a_verdict_is_given_again(small: Architecture, tmp_path: Path) -> None:
    wild = QUICK.replace(lr=9.0, clip=0.0, steps=60, warmup=0)
    for _ in range(2):
        with pytest.raises(Diverged, match="training diverged"):
            Training(TASK, wild, cooldown=0.1)(Job(small, tmp_path))
    assert not list(tmp_path.glob("*/checkpoint-*"))


def test_a_fair_rate_follows_the_shape(small: Architecture, tmp_path: Path) -> None:
    Training(TASK, QUICK, fair=True)(Job(small, tmp_path))
    config = json.loads((tmp_path / "run" / "run.json").read_text())["config"]
    assert config["lr"] == rate_for(small, QUICK.lr) > QUICK.lr


def test_the_pace_and_the_slope_are_told(small: Architecture, tmp_path: Path) -> None:
    values = Training(TASK, QUICK.replace(lr=1e-2))(Job(small, tmp_path))
    assert values["step_seconds"] > 0
    assert values["processor_share"] > 0
    assert values["slope"] == slope_of(tmp_path / "run", 8)


@pytest.mark.parametrize(("every", "first"), [(1, 0), (5, 0), (10, 60)])
def test_a_slope_is_what_the_loss_falls_by_when_the_steps_double(
    tmp_path: Path, every: int, first: int
) -> None:
    lines = []
    for step in range(first + every, 101, every):
        middle = step - every / 2
        loss = 5 - 0.7 * math.log2(middle) if middle >= 50 else 9.0  # the first half is another
        lines += [{"kind": "step", "step": step, "loss": loss}, {"kind": "scores", "step": step}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert slope_of(tmp_path, 100) == pytest.approx(0.7)


def test_a_slope_needs_two_lines(tmp_path: Path) -> None:
    assert slope_of(tmp_path, 20) is None
    lines = [{"kind": "step", "step": step, "loss": loss} for step, loss in ((20, 3.0), (40, 2.0))]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert slope_of(tmp_path, 40) == pytest.approx(1 / math.log2(3))
    (tmp_path / "log.jsonl").write_text(json.dumps(lines[0]) + "\n")
    assert slope_of(tmp_path, 20) is None


def test_a_cool_down_needs_a_constant_rate() -> None:
    with pytest.raises(InputError, match="'cosine' has a fall of its own"):
        Training(TASK, QUICK.replace(schedule="cosine"), cooldown=0.2)
    with pytest.raises(InputError, match="share of the steps"):
        Training(TASK, QUICK, cooldown=-0.2)


def test_a_last_mean_over_few_steps_does_not_make_the_slope(tmp_path: Path) -> None:
    """One noisy step at the end of 61 once made slopes from -1.2 to 1.8."""
    losses = {20: 4.0, 40: 3.0, 60: 2.5}

    def slope(more: dict[int, float], steps: int) -> float:
        lines = [{"kind": "step", "step": s, "loss": x} for s, x in {**losses, **more}.items()]
        (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
        found = slope_of(tmp_path, steps)
        assert found is not None
        return found

    plain = slope({}, 60)
    assert plain == pytest.approx(0.5 / math.log2(50 / 30))
    assert slope({61: 3.5}, 61) == pytest.approx(plain, rel=0.15)
    assert slope({61: 1.5}, 61) == pytest.approx(plain, rel=0.15)
