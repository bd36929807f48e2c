"""Estimators for several machines: cut into stages, and sent with the data that they read."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from formwright.cost import Target
from formwright.cost.machine import fingerprint
from formwright.errors import InputError
from formwright.estimate.base import Check, Estimator, Together
from formwright.estimate.cost import Candidate, Counted, Measured
from formwright.estimate.known import Carried, known_task
from formwright.trial import Trial


@dataclass(frozen=True)
class Given(Estimator):
    """Some values."""

    values: tuple[tuple[str, float], ...]

    def __call__(self, work: Any) -> Mapping[str, float]:
        return dict(self.values)


class Timed(Given):
    """The same, measured."""

    def quiet(self, trial: Trial) -> bool:
        return trial.rung == 0

    def fits(self) -> bool:
        return dict(self.values)["fits"] > 0


class Below(Check):
    """Refuses what takes too long."""

    def check(self, found: Mapping[str, float]) -> None:
        if found["time"] > 5:
            raise InputError(f"too slow, of {found['size']:g}")


class Light(Given):
    light = True


SIZE, TIME, TRAINED = Light((("size", 3.0),)), Timed((("time", 4.0), ("fits", 1.0))), None


def together(time: float = 4.0, fits: float = 1.0) -> Together:
    measured = Timed((("time", time), ("fits", fits)))
    return Together(SIZE, measured, Below(), Given((("loss", 2.0),)))


def in_turn(evaluate: Any) -> dict[str, float]:
    """What stages find, each given what the earlier ones did."""
    found: dict[str, float] = {}
    for number, stage in enumerate(evaluate.stages()):
        found = dict((stage.given(found) if number else stage)(None))
    return found


def test_what_measures_is_a_stage_of_its_own_and_what_is_light_joins_it() -> None:
    stages = together().stages()
    kinds = [[type(part) for part in stage.parts] for stage in stages]
    assert kinds == [[Light, Timed, Below], [Given]]
    first, second = Trial(0, {}), Trial(1, {}, rung=1)
    assert [stage.quiet(first) for stage in stages] == [True, False]
    assert [stage.quiet(second) for stage in stages] == [False, False]
    assert [stage.fits() for stage in together(fits=0.0).stages()] == [False, True]
    assert len(Together(SIZE, Given(())).stages()) == 1
    assert len(Together(Given(()), TIME, Given(())).stages()) == 3


def test_stages_find_what_the_whole_finds() -> None:
    whole = together()
    assert in_turn(whole) == dict(whole(None)) == in_turn(Carried.of(whole))
    for evaluate in (together(time=9.0), Carried.of(together(time=9.0))):
        with pytest.raises(InputError, match="too slow, of 3"):
            in_turn(evaluate)


def test_latency_is_measured_where_the_target_is() -> None:
    here, there = Target(fingerprint=fingerprint("eager")), Target(fingerprint="another")
    assert Measured(here).fits()
    assert Measured(Target()).fits()  # bound to no machine
    assert not Measured(there).fits()
    assert not Candidate("", there).fits()
    assert Measured(here).quiet(Trial(0, {}))
    assert not Measured(here).quiet(Trial(1, {}, continues=0))  # takes over what was measured
    assert not Candidate("", here).quiet(Trial(0, {}))  # predicted
    assert Candidate("", here).quiet(Trial(0, {}, rung=1))
    assert len(Together(Counted(), Measured(here), Given(())).stages()) == 2


@dataclass(frozen=True)
class Reads(Estimator):
    """The size of a task."""

    task: str

    def __call__(self, work: Any) -> Mapping[str, float]:
        batch = known_task(self.task).sampler(batch_tokens=64, seed=0).batch(0)
        return {"sum": float(batch.inputs["tokens"].sum())}


def test_a_carried_task_needs_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORMWRIGHT_CACHE", str(tmp_path / "cache"))
    text = tmp_path / "text.txt"
    text.write_text("It was a dark night and nobody came. " * 200)
    monkeypatch.setattr("formwright.estimate.known._known", {})
    reads = Reads(f"lm:{text}?length=16")
    wanted = reads(None)  # type: ignore[arg-type]
    sent = pickle.dumps(Carried.of(reads))
    text.unlink()
    (tmp_path / "cache").rename(tmp_path / "gone")
    monkeypatch.setattr("formwright.estimate.known._known", {})
    with pytest.raises(InputError):
        reads(None)  # type: ignore[arg-type]
    assert pickle.loads(sent)(None) == wanted


def test_a_process_remembers_a_few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formwright.estimate.known._known", {})
    asked: list[str] = []
    monkeypatch.setattr(
        "formwright.estimate.known.load_task", lambda name: asked.append(name) or name
    )
    for name in "abcabcdea":
        assert known_task(name) == name
    assert "".join(asked) == "abcdea"
