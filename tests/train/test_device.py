"""A device that is not there is one sentence, on the command line and from Python."""

from pathlib import Path

import pytest
import torch
from tests.cli_helpers import InProcess

from formwright.errors import InputError
from formwright.tasks import load_task
from formwright.train import TrainConfig, device_of_text, train


def test_a_processor_is_always_there() -> None:
    assert device_of_text("cpu") == torch.device("cpu")
    assert device_of_text(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("cuda:77", "There is no 'cuda:77' on this machine"),
        ("gpu", "'gpu' is no device; write cpu, cuda or cuda:1"),
        ("", "is no device"),
        ("meta", "holds no numbers"),
    ],
)
def test_anything_else_is_named(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        device_of_text(text)


def test_training_from_python_says_the_same() -> None:
    task = load_task("planted-far?train=50&valid=10&test=10")
    arch = task.architecture("(sf)x1", 16)
    with pytest.raises(InputError, match="There is no 'cuda:77'"):
        train(arch, task, TrainConfig(steps=1), device="cuda:77")


@pytest.mark.parametrize("device", ["cuda", "cuda:0"])
@pytest.mark.parametrize("verb", ["train", "eval", "predict"])
def test_commands_end_before_anything_is_read(
    verb: str,
    device: str,
    tmp_path: Path,
    in_process: InProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(torch, "empty", refuse)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    words = {
        "train": ("(sf)x1", "--task", "classify:nothing.csv"),
        "eval": ("nothing",),
        "predict": ("nothing", "a text"),
    }
    done = in_process(verb, *words[verb], "--device", device, folder=tmp_path)
    assert done.returncode == 2
    assert f"There is no '{device}' on this machine" in done.stderr
    assert "so use cpu" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
