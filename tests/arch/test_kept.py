"""A layer that was found gets a name: in notations, in spaces, measured and exported."""

import json
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from jaxtyping import config
from tests.cli_helpers import InProcess

from formwright.arch import Stack, arch_id, notation, parse
from formwright.arch.counting import count
from formwright.arch.graph.formulas import autobert_zero_2
from formwright.arch.graph.programs import primer_ez_program
from formwright.arch.kept import keep_layer, kept_layer, kept_names
from formwright.errors import FormwrightError, InputError, NotationError, UnknownName
from formwright.model import build
from formwright.model.export import export_onnx
from formwright.recipes.usual import UsualSearch, usual_search_of
from formwright.space import TreeSpace, named_space, space_data, space_from_data
from formwright.space.options import with_layer

BLOCK = primer_ez_program(32, 4, 128)


@pytest.fixture(autouse=True)
def blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORMWRIGHT_BLOCKS", str(tmp_path / "blocks"))
    return tmp_path / "blocks"


def plain_json(value: Any) -> Any:
    """As a record gives it back."""
    return json.loads(json.dumps(value))


@pytest.fixture
def formwright(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    return InProcess(monkeypatch, capsys)


def test_a_name_stands_for_the_layer_itself() -> None:
    keep_layer("my_block", BLOCK)
    assert kept_names() == ["my_block"]
    assert kept_layer("my_block") == BLOCK
    arch = parse("(my_block)x2 f in gpt2(32)")
    assert arch.layers.layers[:2] == (BLOCK, BLOCK)
    written = notation(arch)
    assert "my_block" not in written
    assert arch_id(parse(written)) == arch_id(arch)


def test_a_name_may_stand_inside_other_layers_and_beside_letters() -> None:
    keep_layer("my_mixer", autobert_zero_2(4))
    arch = parse("(residual(my_mixer) f)x2 in llama(32)")
    assert len(arch.layers.layers) == 4
    one = parse("(kf)x2 where k=residual(my_mixer) in llama(32)")
    assert one == arch
    wide = parse("(residual(my_mixer) f)x2 in llama(64)")
    assert count(wide.bind(parse("s in gpt2(32) for frame(9, 9, lm)").frame)).params  # type: ignore[arg-type]


def test_a_block_fits_other_widths() -> None:
    keep_layer("my_block", BLOCK)
    for width in (32, 64, 96):
        assert parse(f"(my_block)x1 in gpt2({width})").backbone.width == width
    with pytest.raises(NotationError, match="cannot stand in a stream of 36"):
        parse("(my_block)x1 in gpt2(36)")


def test_names_that_cannot_be_are_refused_in_one_sentence(blocks: Path) -> None:
    for name in ("block", "My_block", "a b", "../up_up", "my-block"):
        with pytest.raises(InputError, match="cannot be the name of a block"):
            keep_layer(name, BLOCK)
    keep_layer("my_block", BLOCK)
    keep_layer("my_block", BLOCK)  # the same again is no mistake
    with pytest.raises(InputError, match="holds another block"):
        keep_layer("my_block", primer_ez_program(32, 2, 128))
    with pytest.raises(UnknownName, match="my_block"):
        kept_layer("my_blok")
    with pytest.raises(NotationError):
        parse("(my_blok)x2 in gpt2(32)")
    (blocks / "my_block.json").write_text('{"layer": 3}')
    with pytest.raises(FormwrightError, match="holds no layer"):
        kept_layer("my_block")


# --- in spaces ----------------------------------------------------------------------------


def test_a_block_is_one_more_option_of_a_space() -> None:
    plain: Any = named_space("open")
    space = with_layer(plain, BLOCK)
    rng = Random(0)
    with_block = [
        arch
        for arch in (space.resolve(space.draw(rng)) for _ in range(30))
        if any(layer == BLOCK for layer in arch.layers.layers)
    ]
    assert with_block
    for arch in with_block[:10]:
        arch.check()
        decisions = space.decisions_of(arch)
        assert decisions is not None
        assert space.resolve(decisions) == arch
    again = space_from_data(space_data(space))
    assert isinstance(again, TreeSpace)
    assert again.resolve(space.sample(Random(2))) == space.resolve(space.sample(Random(2)))
    assert plain.resolve(plain.sample(Random(1))) == space.resolve(plain.sample(Random(1)))


def test_a_space_without_a_choice_of_layers_is_refused() -> None:
    with pytest.raises(InputError, match="no decision called 'layer'"):
        with_layer(named_space("lts-gpt2"), BLOCK)  # type: ignore[arg-type]


def test_a_usual_search_takes_blocks_by_name() -> None:
    keep_layer("my_block", BLOCK)
    recipe = UsualSearch(task="stdlib?length=64", width=64)
    space = recipe.with_setting('blocks=("my_block",)').make_space()
    drawn = (space.resolve(space.draw(Random(seed))) for seed in range(30))
    assert any(BLOCK in arch.layers.layers for arch in drawn)
    begun = recipe.with_setting('blocks=("my_block",)')
    meta = {"hyperparameters": plain_json(begun.hyperparameters()), "task": begun.task}
    study: Any = SimpleNamespace(meta=meta, seed=0, folder="runs/mine")
    assert usual_search_of(study).blocks == ("my_block",), "it is continued with the same options"
    with pytest.raises(UnknownName):
        recipe.with_setting('blocks=("no_block",)').make_space()


# --- used elsewhere -----------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_with_a_block_goes_out_as_onnx(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    keep_layer("my_block", BLOCK)
    model = build(parse("(my_block)x1 in gpt2(32) for frame(20, 16, lm)"), seed=0).eval()
    config.update("jaxtyping_disable", True)  # while exporting, sizes are symbols
    try:
        export_onnx(model, tmp_path / "model.onnx")
    finally:
        config.update("jaxtyping_disable", False)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    tokens, mask = torch.randint(20, (2, 7)), torch.ones(2, 7, dtype=torch.int64)
    (found,) = session.run(
        ["logits"], {"input_ids": tokens.numpy(), "attention_mask": mask.numpy()}
    )
    torch.testing.assert_close(torch.tensor(found), model(tokens), rtol=1e-4, atol=1e-5)


def test_the_command_keeps_what_was_found(formwright: InProcess, blocks: Path) -> None:
    text = notation(parse("s in gpt2(32)").replace(layers=Stack((BLOCK,))))
    done = formwright("keep", text, "--as", "my_block")
    assert done.returncode == 0, done.stderr
    assert kept_layer("my_block") == BLOCK
    assert (blocks / "my_block.json").is_file()
    shown = formwright("describe", "(my_block)x2 in gpt2(32)")
    assert shown.returncode == 0, shown.stderr
    refused = formwright("keep", text, "--as", "block")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    none = formwright("keep", "(sf)x2 in gpt2(32)", "--as", "my_other")
    assert none.returncode == 2
