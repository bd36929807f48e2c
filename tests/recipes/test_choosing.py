"""Where the time of a compression goes: other methods, teaching on, and which student is taken."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.distil.conftest import ENCODER, taught
from tests.recipes.test_compress import made, run
from tests.use.test_loaded import classify_file

from formwright.distil.methods import ESTIMATES, METHODS, Asked, Found
from formwright.errors import InputError
from formwright.recipes.life import conduct
from formwright.recipes.reopen import recipe_of
from formwright.recipes.summary import _best
from formwright.study.outcome import read_outcome
from formwright.testing.clock import counted_clock
from formwright.trial import Objective

RIGHT, LOSS = Objective("accuracy", "max"), Objective("loss", "min")


def row(role: str, quality: float, latency: float, spread: float = 0.02) -> dict[str, Any]:
    low, high = quality - spread / 2, quality + spread / 2
    return {"role": role, "quality": quality, "low": low, "high": high, "latency": latency}


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        ([row("equally narrow", 0.899, 0.7)], "equally narrow"),  # level, and cheaper
        ([row("equally narrow", 0.899, 0.99)], "found"),  # level, and as dear
        ([row("equally narrow", 0.89, 0.5)], "found"),  # cheaper, and worse
        ([row("equally narrow", 0.905, 0.99)], "found"),  # better, but not clearly
        ([row("fewer layers", 0.93, 1.0)], "fewer layers"),
        ([row("fft", 0.93, 1.0), row("fewer layers", 0.92, 1.0)], "fft"),
        ([row("fewer layers", 0.9, 0.8), row("equally narrow", 0.9, 0.6)], "equally narrow"),
        ([row("found, longer", 0.91, 1.0)], "found, longer"),
        ([row("found, longer", 0.89, 1.0)], "found"),
        ([row("equally narrow, longer", 0.99, 0.9)], "found"),  # whose first was not taken
    ],
)
def test_the_found_student_is_taken_unless_a_simple_one_makes_it_needless(
    others: list[dict[str, Any]], taken: str
) -> None:
    found = row("found", 0.9, 1.0)
    best = _best([found, *others], RIGHT)
    assert best is not None
    assert best["role"] == taken
    turned = [{**r, **{k: -r[k] for k in ("quality", "low", "high")}} for r in (found, *others)]
    best = _best(turned, LOSS)
    assert best is not None
    assert best["role"] == taken, "the same where less is better"


def test_without_a_found_student_the_best_is_taken() -> None:
    best = _best([row("fewer layers", 0.8, 1.0), row("fft", 0.85, 1.0)], RIGHT)
    assert best is not None
    assert best["role"] == "fft"
    assert _best([], RIGHT) is None


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Asked]]:
    """One that answers as the teacher does, one that is too slow, one that refuses."""
    calls: dict[str, list[Asked]] = {"good": [], "slow": []}

    def find(name: str, asked: Asked) -> list[Found]:
        calls[name].append(asked)
        return [Found(limit, Path(asked.teacher.folder), "whole") for limit in asked.limits]

    def refuse(asked: Asked) -> float:
        raise InputError("The teacher is of another kind.")

    monkeypatch.setattr(METHODS, "_things", {})
    monkeypatch.setattr(METHODS, "load", lambda: None)
    for name, needs in (("good", lambda asked: 1.0), ("slow", lambda asked: 1e6), ("odd", refuse)):
        METHODS._things[name] = lambda asked, name=name: find(name, asked)  # type: ignore[misc]
        monkeypatch.setitem(ESTIMATES, name, needs)
    return calls


def test_auto_lets_others_try_in_time_and_the_best_is_taught_on(
    methods: dict[str, list[Asked]], tmp_path: Path
) -> None:
    teacher = taught(tmp_path / "teacher", classify_file(tmp_path), ENCODER)
    recipe = replace(made(teacher, random=0), name="compress-auto", method="auto", steps=0)
    with counted_clock():
        study = run(recipe, tmp_path / "run")
    roles = [trial.details["role"] for trial in study.trials]
    assert "good" in roles, "its answers are the teacher's own"
    assert len(methods["good"]) == 1
    assert methods["good"][0].token_seconds > 0
    assert not methods["slow"]
    why = next(note for note in read_outcome(tmp_path / "run").notes if note.startswith("auto"))
    assert "auto teaches blocks and good" in why
    assert "the answers of good are 0 from the teacher's before teaching" in why
    assert "slow 16667 min" in why
    assert "odd cannot: The teacher is of another kind" in why

    last = study.trials[-1]
    assert last.details["role"].endswith(", longer")
    first = study.trials[last.continues]  # type: ignore[index]
    assert first.details["role"] == last.details["role"].removesuffix(", longer")
    assert (last.rung, last.arch, last.details["limit"]) == (1, first.arch, first.details["limit"])
    assert last.values["steps"] == last.steps

    count = len(study.trials)
    again: Any = recipe_of(study)
    assert again.method == "auto"
    with counted_clock():
        conduct(again, study)
        assert len(study.trials) == count, "all is done"
        more = replace(recipe, limits=("speedup=1.3",))
        both = run(more, tmp_path / "run")
    asked = {trial.details["limit"] for trial in both.trials[count:]}
    assert asked == {"speedup=1.3"}, "what was there stays, and the new limit has all of its own"
    assert {t.details["role"] for t in both.trials[count:]} >= {"found", "designed by hand", "good"}


def test_steps_that_were_asked_for_are_all_that_is_taught(tmp_path: Path) -> None:
    teacher = taught(tmp_path / "teacher", classify_file(tmp_path), ENCODER)
    with counted_clock():
        study = run(made(teacher, random=0), tmp_path / "run")
    assert {trial.rung for trial in study.trials} == {0}
    assert {trial.values["steps"] for trial in study.trials} == {4.0}
