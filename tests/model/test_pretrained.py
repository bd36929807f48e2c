"""Folders that hold no model, or one that could do harm; models that are given another task."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from formwright.arch import parse
from formwright.arch.frame import Frame, Tag
from formwright.errors import InputError
from formwright.model import Model, build, load_model, load_pretrained, save_model, with_frame

CONFIG = {
    "model_type": "bert", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 12,
}  # fmt: skip


def folder_with(path: Path, **files: str) -> Path:
    (path / "config.json").write_text(json.dumps(CONFIG))
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(text)
    return path


def bert(head: str = "features(pooler=true)") -> Model:
    return build(parse(f"(sf)x2 in bert(16, heads=2) for frame(20, 12, {head})"), seed=1).eval()


def test_a_folder_that_is_none_or_holds_no_model_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="holds no model"):
            load_model(folder)
        with pytest.raises(InputError, match="holds no model"):
            load_pretrained(folder)


def test_pickled_weights_are_never_opened(tmp_path: Path) -> None:
    folder_with(tmp_path, pytorch_model__bin="no pickle")
    with pytest.raises(InputError, match="open it once with transformers and call save_pretrained"):
        load_pretrained(tmp_path)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"model.safetensors cannot be read"):
        load_pretrained(folder_with(tmp_path, model__safetensors="nothing"))
    (tmp_path / "config.json").write_text("[1, 2]")
    with pytest.raises(InputError, match="no configuration"):
        load_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(Exception, match="not a JSON document"):
        load_pretrained(tmp_path)


def test_an_index_cannot_reach_out_of_its_folder(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"a": "../model.safetensors"}})
    folder_with(tmp_path, model__safetensors__index__json=index)
    with pytest.raises(InputError, match="names no files of this folder"):
        load_pretrained(tmp_path)


def test_quantised_weights_are_refused(tmp_path: Path) -> None:
    folder_with(tmp_path)
    words = torch.zeros(9, 8, dtype=torch.int8)
    save_file({"embeddings.word_embeddings.weight": words}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"stored as torch.int8"):
        load_pretrained(tmp_path)


def test_reading_a_checkpoint_needs_no_other_library(tmp_path: Path) -> None:
    program = (
        "import sys; from formwright.model import load_pretrained;"
        "assert 'transformers' not in sys.modules and 'pickle5' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


# --- another task -------------------------------------------------------------------------------


def test_a_model_keeps_its_layers_for_another_task() -> None:
    model = bert()
    tokens = torch.randint(20, (2, 7))
    made = with_frame(model, Frame(20, 9, Tag(5)), seed=3).eval()
    assert made(tokens).shape == (2, 7, 5)
    torch.testing.assert_close(made.features(tokens)[0], model.features(tokens)[0])
    assert not torch.equal(made.head.map.weight, torch.zeros_like(made.head.map.weight))


def test_a_head_that_is_the_tasks_is_kept() -> None:
    model = bert("mlm")
    tokens = torch.randint(20, (2, 7))
    made = with_frame(model, Frame(20, 12, model.frame.head), seed=3).eval()
    torch.testing.assert_close(made(tokens), model(tokens))


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (Frame(21, 12, Tag(5)), "knows 20 symbols and the task 21; read the task with"),
        (Frame(20, 13, Tag(5)), "positions for 12 tokens and the task needs 13"),
    ],
)
def test_a_task_of_other_symbols_or_longer_texts_is_refused(frame: Frame, says: str) -> None:
    with pytest.raises(InputError, match=says):
        with_frame(bert(), frame)


def test_our_own_folders_are_still_read_as_they_were(tmp_path: Path) -> None:
    model = bert()
    save_model(model, tmp_path)
    (tmp_path / "config.json").write_text("{}")  # of whatever else lies there
    assert load_model(tmp_path).arch == model.arch
