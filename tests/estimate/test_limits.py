"""Limits are held against what was measured, and nothing over one is trained."""

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from formwright.arch import parse
from formwright.arch.counting import count
from formwright.cost import Target
from formwright.errors import FormwrightError
from formwright.estimate import Counted, Estimator, OverLimit, Together, Within, Work
from formwright.estimate.limits import keeps
from formwright.study.job import Job, attempt
from formwright.trial import Objective, Trial

ARCH = parse("(sf)x2 in llama(32) for frame(50, 16, lm)")
LATENCY = {"latency": 4.1, "latency_low": 4.0, "latency_high": 4.2}


@dataclass(frozen=True)
class Gives(Estimator):
    """What was measured, without measuring."""

    values: Mapping[str, float]

    def __call__(self, work: Work) -> Mapping[str, float]:
        return self.values


@dataclass(frozen=True)
class Trains(Estimator):
    """Remembers that it was asked."""

    asked: list[Any] = field(default_factory=list)

    def __call__(self, work: Work) -> Mapping[str, float]:
        self.asked.append(work)
        return {"loss": 1.0}


def job(folder: Path) -> Job:
    return Job(Trial(0, {}), ARCH, folder, None, 0)


def test_what_is_over_a_limit_is_not_trained(tmp_path: Path) -> None:
    trains = Trains()
    chain = Together(Gives(LATENCY), Within({"latency": 3.0}), trains)
    words = r"latency 4\.1 ms \(up to 4\.2\) is over the limit of 3 ms"
    with pytest.raises(OverLimit, match=f"^{words}$") as caught:
        chain(job(tmp_path))
    assert caught.value.values == LATENCY
    assert trains.asked == []


@pytest.mark.parametrize(("most", "refused"), [(4.15, True), (4.2, False), (9.0, False)])
def test_the_upper_end_of_what_was_measured_counts(
    most: float, refused: bool, tmp_path: Path
) -> None:
    trains = Trains()
    chain = Together(Gives(LATENCY), Within({"latency": most}), trains)
    if refused:
        with pytest.raises(OverLimit):
            chain(job(tmp_path))
    else:
        assert chain(job(tmp_path)) == {**LATENCY, "loss": 1.0}
    assert len(trains.asked) == (not refused)


def test_counts_and_memory_have_limits_too(tmp_path: Path) -> None:
    params = count(ARCH).params
    with pytest.raises(OverLimit, match=r"^params .* is over the limit of"):
        Together(Counted(), Within({"params": params - 1}))(job(tmp_path))
    assert Together(Counted(), Within({"params": params}))(job(tmp_path))["params"] == params
    with pytest.raises(OverLimit, match="memory 2000 bytes is over the limit of 1000 bytes"):
        Within({"memory": 1000.0}).check({"memory": 2000.0})


def test_what_was_not_measured_breaks_no_limit() -> None:
    Within({"latency": 1.0}).check({"params": 1e9})
    Within().check({"latency": 1e9})


def test_a_failed_trial_keeps_what_was_measured(tmp_path: Path) -> None:
    chain = Together(Gives(LATENCY), Within({"latency": 3.0}), Trains())
    answer = attempt(chain, job(tmp_path), [Objective("loss", "min")])
    assert answer.reason.startswith("OverLimit: latency 4.1 ms")
    assert answer.values == LATENCY
    settled = answer.settle(Trial(0, {}))
    assert settled.state == "failed"
    assert settled.values == LATENCY


class Odd(Exception):
    """Carries something by the same name."""

    def __init__(self, values: Any) -> None:
        super().__init__("odd")
        self.values = values


@pytest.mark.parametrize(
    ("carried", "kept"),
    [
        ({"latency": 2, "name": "x", "nothing": None}, {"latency": 2.0}),
        ({"loss": float("nan"), "latency": float("inf"), "params": 3.0}, {"params": 3.0}),
        ([1.0, 2.0], {}),
        (None, {}),
        ({}.values, {}),
    ],
)
def test_only_finite_numbers_by_name_are_kept(
    carried: Any, kept: dict[str, float], tmp_path: Path
) -> None:
    def evaluate(job: Job) -> Mapping[str, float]:
        raise Odd(carried)

    answer = attempt(evaluate, job(tmp_path), [Objective("loss", "min")])
    assert answer.reason == "Odd: odd"
    assert dict(answer.values) == kept


def test_an_exception_comes_whole_out_of_another_process() -> None:
    error = pickle.loads(pickle.dumps(OverLimit("too slow", LATENCY)))
    assert isinstance(error, FormwrightError)
    assert (str(error), error.values) == ("too slow", LATENCY)


@dataclass(frozen=True)
class Reading:
    ms: float
    ratio: float
    high: float


def test_models_are_measured_only_where_counting_does_not_decide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    measured = []

    class Clock:
        def measure(self, arch: Any, **how: float) -> Reading:
            measured.append(arch)
            return Reading(ms=2.0, ratio=1.0, high=1.1)

    monkeypatch.setattr("formwright.estimate.limits.meter_for", lambda target: Clock())
    params, target = count(ARCH).params, Target(length=16)
    assert not keeps({"params": params - 1, "latency": 9.0}, target)(ARCH)
    assert measured == []
    assert keeps({"params": params}, target)(ARCH)
    assert measured == []
    assert keeps({"latency": 2.3}, target)(ARCH)
    assert not keeps({"latency": 2.1}, target)(ARCH)
    assert len(measured) == 2
