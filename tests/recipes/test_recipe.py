"""Every recipe can be named, told another task, and found again from its study."""

from pathlib import Path
from typing import Any

import pytest

from formwright.errors import UnknownName
from formwright.estimate.training import known_task
from formwright.recipes.life import begin
from formwright.recipes.recipe import RECIPES, recipe
from formwright.recipes.reopen import recipe_of
from formwright.testing.clock import counted_clock

OTHER = {
    "dartformer": "planted-near?length=12&symbols=4",
    "fft": "planted-near?length=12&symbols=4",
    "lts": "stdlib?length=24",
    "par": "stdlib?length=24",
}


PRESETS = [(name, preset) for name, named in RECIPES.items() for preset in named.presets]


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_its_name_says_which_it_is(name: str, preset: str) -> None:
    made: Any = recipe(name, preset, seed=7)
    again: Any = recipe(*made.name.rsplit("-", 1), seed=7)
    assert type(again) is type(made)
    assert (again.name, again.task) == (made.name, made.task)
    assert again.hyperparameters() == made.hyperparameters()
    assert made.seed == 7
    assert made.expected is None or made.expected >= 1


@pytest.mark.parametrize("name", ["dartformer", "dartformer-prune", "fft", "lts", "lts-xl", "par"])
def test_another_task_gives_its_frame_and_is_found_again(name: str, tmp_path: Path) -> None:
    task = OTHER[name.partition("-")[0]]
    made: Any = recipe(name, "smoke", task=task, seed=1)
    frame = known_task(task).frame
    _, baseline = made.make_baseline()
    assert baseline.fitted(frame) == baseline
    with counted_clock():
        study = begin(made, tmp_path)
    declared: Any = study.space.declared  # type: ignore[attr-defined]
    assert declared.frame == baseline.frame
    found: Any = recipe_of(study)
    assert found.task == task
    assert found.make_baseline() == made.make_baseline()


def test_an_unknown_name_or_preset_is_refused() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'par'"):
        recipe("parr", "small")
    with pytest.raises(UnknownName, match="preset"):
        recipe("par", "tiny")
