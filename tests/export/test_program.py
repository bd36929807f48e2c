"""Programs of torch.export, and OpenVINO where it is."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from jaxtyping import config
from tests.export import folders

from formwright.errors import InputError
from formwright.export import export_model


@pytest.fixture(autouse=True)
def symbols_for_sizes() -> Iterator[None]:
    """While exporting, sizes are symbols and no whole numbers, which annotations ask for."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@torch.no_grad()
def test_a_program_answers_at_shapes_that_were_not_exported(tmp_path: Path) -> None:
    model = folders.classifier(tmp_path)
    found = export_model(tmp_path / "model", tmp_path / "out", to="torch")
    assert found.files == ["card.json", "model.pt2", "task.json"]
    assert found.difference < 1e-4
    program = torch.export.load(tmp_path / "out" / "model.pt2").module()
    tokens = torch.randint(model.frame.vocab, (5, 7))
    answer = program(tokens, torch.ones_like(tokens))
    torch.testing.assert_close(answer, model(tokens), atol=1e-4, rtol=0)


def test_openvino_is_written_or_refused_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from formwright.export import openvino

    folders.classifier(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(openvino, "find_spec", lambda name: None)
        with pytest.raises(InputError, match="pip install openvino"):
            export_model(tmp_path / "model", tmp_path / "out", to="openvino")
    assert not (tmp_path / "out").exists()
    pytest.importorskip("openvino")
    found = export_model(tmp_path / "model", tmp_path / "out", to="openvino")
    assert found.files == ["card.json", "model.bin", "model.xml", "task.json"]
    assert found.difference < 1e-3
