"""Every recipe can be named, told another task, and found again from its study."""

from pathlib import Path
from typing import Any

import pytest

from formwright.cost import Target
from formwright.errors import UnknownName
from formwright.estimate.training import known_task
from formwright.recipes import lts, oneshot
from formwright.recipes.catalogue import PRESETS, RECIPES, recipe, recipe_of

OTHER = {
    "dartformer": "planted-near?length=12&symbols=4",
    "fft": "planted-near?length=12&symbols=4",
    "lts": "stdlib?length=24",
    "par": "stdlib?length=24",
}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", RECIPES)
def test_its_name_says_which_it_is(name: str, preset: str) -> None:
    made: Any = recipe(name, preset, seed=7)
    again: Any = recipe(*made.name.rsplit("-", 1), seed=7)
    assert type(again) is type(made)
    assert (again.name, again.task, again.training) == (made.name, made.task, made.training)
    assert made.seed == 7
    assert made.expected >= 1


@pytest.mark.parametrize("name", ["dartformer", "dartformer-prune", "fft", "lts", "lts-xl", "par"])
def test_another_task_gives_its_frame_and_is_found_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_once(target: Target, *, seconds: float) -> Target:
        return target.replace(reference_ms=1.0)

    for module in (lts, oneshot):
        monkeypatch.setattr(module, "calibrate", at_once)
    task = OTHER[name.partition("-")[0]]
    made: Any = recipe(name, "smoke", task=task, seed=1)
    frame = known_task(task).frame
    assert made.baseline[1].fitted(frame) == made.baseline[1]
    study = made.begin(tmp_path)
    declared: Any = study.space.declared  # type: ignore[attr-defined]
    assert declared.frame == made.baseline[1].frame
    found: Any = recipe_of(study)
    assert found.task == task
    assert found.baseline == made.baseline


def test_an_unknown_name_or_preset_is_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'par'"):
        recipe("parr", "small")
    with pytest.raises(UnknownName, match="preset"):
        recipe("par", "tiny")
