"""A fixed time is a number of steps that a table allows; what cannot be trained is refused."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from formwright.arch import Architecture, Stack, arch_id, notation
from formwright.arch.graph.instruction import Instruction
from formwright.arch.graph.program import Program, Subprogram
from formwright.arch.graph.programs import transformer_program
from formwright.errors import InputError
from formwright.estimate import Diverged, Estimator, Paced, Sound, Training, Work
from formwright.estimate.paced import steps_within
from formwright.tasks import load_task
from formwright.train import TrainConfig, pace
from formwright.trial import Trial

TASK = "planted-near?length=12&symbols=4&train=200&valid=40&test=40"
QUICK = TrainConfig(
    steps=4, batch_tokens=96, schedule="constant", warmup=1, lr=1e-3, score_batches=1
)


@dataclass(frozen=True)
class Job:
    arch: Any
    folder: Path
    previous: Path | None = None
    parents: tuple[Path, ...] = ()
    seed: int = 0
    trial: Trial = dataclasses.field(default_factory=lambda: Trial(0, {}))


@dataclass(frozen=True)
class Told(Estimator):
    """Says for how long it was asked to train."""

    def __call__(self, work: Work) -> Mapping[str, float]:
        assert work.trial.train_seconds is None
        return {"steps": float(work.trial.steps or 0)}


@pytest.fixture(scope="module")
def seed() -> Architecture:
    base = load_task(TASK).architecture("(sf)x1", 16)
    return base.replace(layers=Stack((transformer_program(16, 4, 32),)))


def paced(seed: Architecture, table: Path, inner: Estimator | None = None) -> Paced:
    return Paced(inner or Told(), TASK, QUICK, notation(seed), 0.01, str(table))


def test_who_steps_faster_takes_more_steps_in_the_same_time(
    seed: Architecture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ratio(arch: Architecture, *ignored: Any) -> float:
        asked.append(arch_id(arch))
        return 2.5

    monkeypatch.setattr(pace, "step_ratio", ratio)
    half = Trial(0, {}, train_seconds=0.5)
    estimator = paced(seed, tmp_path / "steps")
    slow = seed.replace(layers=Stack(seed.layers.layers * 2))
    assert estimator(Job(seed, tmp_path, trial=half)) == {"steps": 50, "step_ratio": 1.0}
    for _ in range(2):
        assert estimator(Job(slow, tmp_path, trial=half)) == {"steps": 20, "step_ratio": 2.5}
    assert asked == [arch_id(slow)], "the seed is the unit, and nothing is measured twice"
    kept = json.loads((tmp_path / "steps" / f"{arch_id(slow)}.json").read_text())
    assert kept == {"step_ratio": 2.5}


def test_a_trial_in_steps_is_handed_on(seed: Architecture, tmp_path: Path) -> None:
    found = paced(seed, tmp_path)(Job(seed, tmp_path, trial=Trial(0, {}, steps=7)))
    assert found == {"steps": 7}


def test_a_longer_time_continues_the_same_training(seed: Architecture, tmp_path: Path) -> None:
    training = Training(TASK, QUICK, last=1)
    estimator = paced(seed, tmp_path / "steps", training)
    first = estimator(Job(seed, tmp_path / "0", trial=Trial(0, {}, train_seconds=0.03)))
    later = Trial(1, {}, train_seconds=0.06, rung=1, continues=0)
    second = estimator(Job(seed, tmp_path / "1", previous=tmp_path / "0", trial=later))
    assert (first["steps"], second["steps"]) == (3, 6)
    whole = training(Job(seed, tmp_path / "2", trial=Trial(2, {}, steps=6, rung=1)))
    assert second["loss"] == whole["loss"]


def test_the_ratio_of_two_steps_is_taken_in_turns(seed: Architecture) -> None:
    long = seed.replace(layers=Stack(seed.layers.layers * 6))
    assert pace.step_ratio(long, seed, load_task(TASK), QUICK, rounds=5) > 1.5


def test_at_least_one_step_is_taken_and_a_unit_is_needed(seed: Architecture) -> None:
    assert steps_within(0.001, 1.0) == 1
    assert steps_within(0.3, 0.1) == 3
    with pytest.raises(InputError, match="above 0"):
        Paced(Told(), TASK, QUICK, notation(seed), 0.0, "")


# --- what cannot be trained ----------------------------------------------------------------


def made(seed: Architecture, *code: Instruction, **banks: Any) -> Architecture:
    program = Program((Subprogram(code),), **{"dims": (8,), **banks})
    return seed.replace(layers=Stack((program,)))


@pytest.mark.parametrize(
    ("code", "constants", "reason"),
    [
        ((("c_mul", 0, 0), ("recip", 1, 0), ("shift", 2, 0)), (0.0,), "its first loss is"),
        ((("c_mul", 0, 0), ("shift", 1, 0)), (0.0,), "the same for every token"),
        ((("tanh", 0, 0),), (), "no gradient reaches its layers"),
    ],
)
def test_programs_that_cannot_be_trained_are_refused(
    seed: Architecture, tmp_path: Path, code: Any, constants: Any, reason: str
) -> None:
    arch = made(seed, *(Instruction(*words) for words in code), constants=constants)
    with pytest.raises(Diverged, match=reason):
        Sound(TASK, QUICK)(Job(arch, tmp_path))


def test_a_loss_that_explodes_within_a_few_steps_is_refused(
    seed: Architecture, tmp_path: Path
) -> None:
    wild = QUICK.replace(lr=9.0, clip=0.0, warmup=0, optimiser="adamw")
    code = [Instruction("shift", 0), Instruction("square", 1), Instruction("square", 2)]
    arch = made(seed, *code, Instruction("square", 3), Instruction("scale", 4))
    with pytest.raises(Diverged, match="its loss is"):
        Sound(TASK, wild, steps=12)(Job(arch, tmp_path))


def test_what_can_be_trained_passes_and_is_looked_at_once(
    seed: Architecture, tmp_path: Path
) -> None:
    assert Sound(TASK, QUICK)(Job(seed, tmp_path)) == {}
    broken = made(seed, Instruction("c_mul", 0), constants=(0.0,))
    assert Sound(TASK, QUICK)(Job(broken, tmp_path, previous=tmp_path)) == {}
