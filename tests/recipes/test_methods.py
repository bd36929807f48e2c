"""Students that other recipes find, inside a compression: judged beside the blocks."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.distil.conftest import taught
from tests.recipes.test_compress import made
from tests.use.test_loaded import classify_file

from formwright.arch.counting import count
from formwright.distil.methods import METHODS
from formwright.errors import InputError
from formwright.recipes.life import begin, conduct
from formwright.recipes.methods import NAMES, students_of
from formwright.study.outcome import read_outcome
from formwright.testing.clock import counted_clock
from formwright.use import load

BERT = "(sf)x4 in bert(32, heads=2, inner=64)"


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("teacher")
    return taught(folder, classify_file(folder), BERT)


@pytest.mark.parametrize("name", NAMES)
def test_what_another_recipe_finds_is_taught_and_judged_as_blocks_are(
    name: str, teacher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS._things, name, partial(students_of, name, preset="smoke"))
    most = 0.7 * count(teacher.model.arch).params
    recipe = replace(made(teacher, f"params={most:g}"), name=f"compress-{name}", method=name)
    with counted_clock():
        study = begin(recipe, tmp_path)
        conduct(recipe, study)
        theirs = [trial for trial in study.trials if trial.details.get("role") == name]
        assert [trial.state for trial in theirs] == ["done"]
        assert theirs[0].note.startswith(f"{name}: ")
        assert theirs[0].values["params"] <= 1.001 * most
        blocks = [trial for trial in study.trials if trial.details.get("role") == "found"]
        assert theirs[0].values["steps"] == blocks[0].values["steps"]
        study.close()
        assert list((tmp_path / name).glob("params=*/study.db"))
    assert read_outcome(tmp_path).headline
    assert load(tmp_path / "best").predict("good one")


def test_an_unknown_method_is_answered_with_those_that_are_known() -> None:
    from formwright.distil.methods import known_method

    with pytest.raises(InputError, match="use auto, blocks, autodistil, nasbert, fft"):
        known_method("magic")
