"""Which folder of a trained model is meant."""

from pathlib import Path

import pytest
from tests.study import toy

from formwright.arch import parse
from formwright.cli.resolve import model_folder
from formwright.errors import FormwrightError, InputError
from formwright.execute import Serial
from formwright.model import build, save_model
from formwright.study import run

MODEL = build(parse("sf in gpt2(16) for frame(20, 12, lm)"))


@pytest.mark.parametrize("inside", ["", "best", "model", "seed-0/model"])
def test_a_folder_or_a_run_is_found(inside: str, tmp_path: Path) -> None:
    folder = save_model(MODEL, tmp_path / "run" / inside)
    assert model_folder(str(tmp_path / "run")) == folder


def test_the_best_of_a_search_goes_before_its_last_training(tmp_path: Path) -> None:
    save_model(MODEL, tmp_path / "model")
    best = save_model(MODEL, tmp_path / "best")
    assert model_folder(str(tmp_path)) == best


def test_a_folder_of_hugging_face_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert model_folder(str(tmp_path)) == tmp_path


def test_a_trial_is_found_where_it_left_a_model(tmp_path: Path) -> None:
    study = toy.study(tmp_path)
    run(study, Serial(toy.free), trials=2)
    folder = save_model(MODEL, study.trial_folder(1) / "run" / "model")
    study.close()
    assert model_folder(f"{tmp_path}#1") == folder
    with pytest.raises(InputError, match=r"Trial 0 of .* left no trained model"):
        model_folder(f"{tmp_path}#0")
    with pytest.raises(InputError, match="has no trial 7; it has 0 to 1"):
        model_folder(f"{tmp_path}#7")


def test_a_folder_with_a_number_sign_in_its_name_is_a_folder(tmp_path: Path) -> None:
    folder = save_model(MODEL, tmp_path / "run#3" / "model")
    assert model_folder(str(tmp_path / "run#3")) == folder


def test_what_is_no_model_is_said_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no trained model"):
        model_folder(str(tmp_path))
    with pytest.raises(InputError, match="There is no folder"):
        model_folder(str(tmp_path / "missing"))
    with pytest.raises(FormwrightError, match="missing"):
        model_folder(f"{tmp_path}/missing#3")
