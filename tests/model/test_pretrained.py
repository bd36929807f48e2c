"""Folders that hold no model, or one that could do harm; models that are given another task."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from formwright.arch import parse
from formwright.arch.frame import Frame, Tag
from formwright.errors import InputError
from formwright.model import (
    Model,
    Pooling,
    build,
    labels_of,
    load_model,
    load_pretrained,
    pooling_of,
    save_model,
    stock,
    with_frame,
)

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


def pickled(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of a small BERT as a pickle."""
    model = build(parse("(sf)x1 in bert(8, heads=2, inner=16) for frame(9, 12, features)"), seed=1)
    found = stock(model)
    assert found is not None
    folder_with(folder)
    torch.save(found.state, folder / "pytorch_model.bin")
    return model.state_dict()


def test_pickled_weights_are_opened_only_if_asked_for(tmp_path: Path) -> None:
    wanted = pickled(tmp_path)
    for says in ("open it once with transformers and call save_pretrained", "--unsafe-pickle"):
        with pytest.raises(InputError, match=says):
            load_pretrained(tmp_path)
    torch.testing.assert_close(
        dict(load_pretrained(tmp_path, unsafe_pickle=True).state_dict()), dict(wanted)
    )


class Harmful:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return (Path.touch, (self.path,))


def test_a_pickle_runs_no_code_even_then(tmp_path: Path) -> None:
    folder_with(tmp_path)
    torch.save({"a": Harmful(tmp_path / "harm")}, tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model.bin cannot be read") as caught:
        load_pretrained(tmp_path, unsafe_pickle=True)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "harm").exists()


def test_safetensors_are_preferred_to_pickles(tmp_path: Path) -> None:
    pickled(tmp_path)
    state = torch.load(tmp_path / "pytorch_model.bin", weights_only=True)
    (tmp_path / "pytorch_model.bin").write_text("no pickle")
    save_file(state, tmp_path / "model.safetensors")
    load_pretrained(tmp_path, unsafe_pickle=True)


# --- beside the weights -------------------------------------------------------------------------


def test_labels_are_in_order_and_may_be_missing(tmp_path: Path) -> None:
    folder_with(tmp_path)
    assert labels_of(tmp_path) == []
    names = {str(n): f"label {n}" for n in range(11)}
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "id2label": names}))
    assert labels_of(tmp_path) == [f"label {n}" for n in range(11)]
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "id2label": {"1": "no zero"}}))
    with pytest.raises(InputError, match="a name for each number from 0 on"):
        labels_of(tmp_path)


def sentences(folder: Path, below: str, pooling: dict[str, Any], *more: str) -> Path:
    """A folder of sentence-transformers, the transformer in a folder of its own or not."""
    (folder / below).mkdir(parents=True, exist_ok=True)
    pickled(folder / below)
    weights = torch.load(folder / below / "pytorch_model.bin", weights_only=True)
    save_file(weights, folder / below / "model.safetensors")
    kinds = {"Transformer": below, "Pooling": "1_Pooling", **{kind: f"2_{kind}" for kind in more}}
    parts = [{"type": f"sentence_transformers.models.{k}", "path": p} for k, p in kinds.items()]
    (folder / "modules.json").write_text(json.dumps(parts))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@pytest.mark.parametrize("below", ["", "0_Transformer"])
@pytest.mark.parametrize(
    ("pooling", "more", "wanted"),
    [
        ({"pooling_mode_mean_tokens": True}, ("Normalize",), Pooling("mean", normalise=True)),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, (), Pooling("first")),
        ({"pooling_mode": "lasttoken"}, (), Pooling("last")),
    ],
)
def test_sentence_transformers_say_how_they_pool(
    tmp_path: Path, below: str, pooling: dict[str, Any], more: tuple[str, ...], wanted: Pooling
) -> None:
    folder = sentences(tmp_path, below, pooling, *more)
    assert pooling_of(folder) == wanted
    assert load_model(folder).arch.backbone.width == 8
    assert labels_of(folder) == []


def test_other_folders_say_nothing_about_pooling(tmp_path: Path) -> None:
    assert pooling_of(folder_with(tmp_path)) is None


def test_a_pooling_of_two_kinds_or_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    both = {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}
    with pytest.raises(InputError, match="one kind of pooling can be read, and it has 2"):
        pooling_of(sentences(tmp_path, "", both))
    with pytest.raises(InputError, match="the part Dense cannot be read; Transformer, Pooling"):
        pooling_of(sentences(tmp_path / "more", "", {"pooling_mode_mean_tokens": True}, "Dense"))
    outside = json.dumps([{"type": "a.Pooling", "path": "../else"}])
    (tmp_path / "modules.json").write_text(outside)
    with pytest.raises(InputError, match="no part of this folder"):
        pooling_of(tmp_path)


# --- damage -------------------------------------------------------------------------------------


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
