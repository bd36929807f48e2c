"""Exported models: the same numbers as torch, at shapes that were not exported."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from jaxtyping import config
from tests.helpers import ZOO_FAMILIES

from formwright import zoo
from formwright.arch import Architecture, Stack, parse
from formwright.errors import InputError, ShapeError, SpecError, StorageError
from formwright.model import build
from formwright.model import export as export_module
from formwright.model.export import (
    as_fed,
    check_parity,
    export_onnx,
    inputs_of,
    largest_difference,
    open_session,
    sample_inputs,
)
from formwright.model.quantise import quantise_dynamic, quantise_static

pytest.importorskip("onnxruntime")

IN_BLOCKS = ("bigbird", "local", "longformer", "reformer", "sparse")
OTHERS = ("linear", "linformer", "performer", "synthesizer")
# One entry of every family of the zoo that has parts of its own, and one of each attention.
ENTRIES = (
    "par-base",
    "transformer-xl-large",
    "bert-base",
    "gpt2-small",
    "smollm2-135m",
    "nas-bert-60",
    "evolved-transformer-base",
    "evolved-transformer-lm",
    "primer-small",
    "autobert-zero-base",
    "autodistil-agnostic",
    "lra-listops-full",
    "dartformer-matching-linear",
    *(f"dartformer-text-{kind}" for kind in (*IN_BLOCKS, *OTHERS)),
)


@pytest.fixture(autouse=True)
def symbols_for_sizes() -> Iterator[None]:
    """While exporting, sizes are symbols and no whole numbers, which annotations ask for."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def shrunk(arch: Architecture, longest: int = 24, most: int = 4) -> Architecture:
    """One layer of each sort, at the published width, with few words and short texts."""
    assert arch.frame is not None
    embedding = arch.backbone.embedding
    if embedding.clusters:
        few = embedding.replace(clusters=(20, 35, 50)[: len(embedding.clusters)])
        arch = arch.replace(backbone=arch.backbone.replace(embedding=few))
    arch = arch.bind(arch.frame.replace(vocab=60, length=longest))

    def cut(stack: Stack | None) -> Stack | None:
        return stack and Stack(tuple(dict.fromkeys(stack.layers))[:most])

    try:
        return arch.replace(layers=cut(arch.layers), encoder=cut(arch.encoder)).check()
    except ShapeError:  # widths that change from layer to layer need all of them
        return arch.check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_every_family_of_the_zoo_exports_with_the_same_numbers(name: str, tmp_path: Path) -> None:
    model = build(shrunk(zoo.get(name).build()))
    made = export_onnx(model, tmp_path / "a.onnx")
    assert made.batch is None
    assert (made.length is not None) == name.endswith(IN_BLOCKS)
    longest = made.length or model.frame.length
    shapes = [(1, longest), (4, longest), (5, made.length or 7)]
    assert check_parity(model, made.path, shapes) <= 1e-4


def test_every_family_of_the_zoo_is_among_them() -> None:
    missing = {entry.system for entry in zoo.entries()} - {zoo.get(n).system for n in ENTRIES}
    transformer_xl, bert = (
        {"sandwich", "LiteTransformerSearch"},
        {"MiniLM", "Finding Fast Transformers"},
    )
    assert missing == transformer_xl | bert  # these in other sizes or another order


@pytest.mark.parametrize("family", ["gpt2", pytest.param("translator", marks=pytest.mark.slow)])
def test_batch_and_length_stay_open(family: str, tmp_path: Path) -> None:
    model = build(parse(ZOO_FAMILIES[family]))
    made = export_onnx(model, tmp_path / "a.onnx")
    assert made.inputs == tuple(inputs_of(model).values())
    assert (made.batch, made.length) == (None, None)
    assert check_parity(model, made.path, [(1, 1), (1, 24), (7, 5)]) <= 1e-4
    assert [path.name for path in tmp_path.iterdir()] == ["a.onnx"]


def test_sizes_can_be_fixed_and_masks_left_out(tmp_path: Path) -> None:
    model = build(parse(ZOO_FAMILIES["bert"]))
    made = export_onnx(model, tmp_path / "a.onnx", batch=1, length=9, mask=False)
    assert made.inputs == ("input_ids",)
    check_parity(model, made.path, [(1, 9)], mask=False)
    with pytest.raises(SpecError, match="does not run at batch 2, length 9"):
        check_parity(model, made.path, [(2, 9)], mask=False)


def test_a_file_of_other_weights_is_found_out(tmp_path: Path) -> None:
    arch = parse("sf in gpt2(16) for frame(20, 12, lm)")
    made = export_onnx(build(arch, seed=0), tmp_path / "a.onnx")
    with pytest.raises(SpecError, match="differs from the model by"):
        check_parity(build(arch, seed=1), made.path)


def test_what_cannot_be_exported_is_refused_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from formwright.ops.feedforward.feedforward import FeedForwardOp

    path = tmp_path / "a.onnx"
    path.write_text("old")
    model = build(parse("sf in gpt2(16) for frame(20, 12, lm)"))
    plain = FeedForwardOp.forward

    def forward(self: FeedForwardOp, x: torch.Tensor, ctx: object) -> torch.Tensor:
        return plain(self, x, ctx) if float(x.sum()) > 0 else x  # type: ignore[arg-type]

    monkeypatch.setattr(FeedForwardOp, "forward", forward)
    with pytest.raises(SpecError, match="cannot be exported"):
        export_onnx(model, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_mistakes_are_told_before_the_work_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(parse("sf in gpt2(16) for frame(20, 12, lm)"))
    with pytest.raises(StorageError, match="there is no folder"):
        export_onnx(model, tmp_path / "missing" / "a.onnx")
    monkeypatch.setattr(export_module, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'formwright\[export\]'"):
        export_onnx(model, tmp_path / "a.onnx")


def test_samples_have_rows_of_different_length() -> None:
    model = build(parse(ZOO_FAMILIES["translator"]))
    found = sample_inputs(model, 6, 10)
    assert set(found) == {"tokens", "source", "mask", "source_mask"}
    assert found["mask"].sum(1).unique().numel() > 1
    assert bool(found["mask"][:, 0].all())


HEADS = {
    "lm": "sf in gpt2(16) for frame(30, 12, lm)",
    "translate": "sf | smf in translator(16) for frame(30, 12, lm)",
    "mlm": "sf in bert(16) for frame(30, 12, mlm)",
    "mean": "sf in bert(16) for frame(30, 12, classify(15, pool=mean))",
    "cls": "sf in lra(16) for frame(30, 12, classify(3, pool=cls, hidden=[24]))",
    "last": "sf in gpt2(16) for frame(30, 12, classify(3, pool=last))",
    "match": "sf in lra(16) for frame(30, 12, match(2, hidden=[24]))",
    "tag": "sf in bert(16) for frame(30, 12, tag(7))",
    "span": "sf in bert(16) for frame(30, 12, span)",
    "features": "sf in bert(16) for frame(30, 12, features(pooler=true))",
}
TEXT = ("input_ids", "attention_mask")
SEGMENTS = (*TEXT, "token_type_ids")
INPUTS = {
    "translate": (*TEXT, "decoder_input_ids", "decoder_attention_mask"),
    "match": (*TEXT, "other_input_ids", "other_attention_mask"),
} | dict.fromkeys(("mlm", "mean", "tag", "span", "features"), SEGMENTS)


@pytest.mark.parametrize("name", HEADS)
def test_every_head_exports_in_every_precision_under_the_usual_names(
    name: str, tmp_path: Path
) -> None:
    model = build(parse(HEADS[name]))
    plain = export_onnx(model, tmp_path / "a.onnx", segments=True)  # compares with the model
    assert plain.inputs == INPUTS.get(name, TEXT)
    names = inputs_of(model, segments=True)
    samples = [sample_inputs(model, 8, 12 - n, segments=True, seed=n) for n in range(4)]
    dynamic = quantise_dynamic(plain.path, tmp_path / "b.onnx")
    examples = [as_fed(sample, names) for sample in samples]
    static = quantise_static(plain.path, tmp_path / "c.onnx", examples)
    for path in (dynamic, static):
        session = open_session(path, 1)
        assert tuple(node.name for node in session.get_inputs()) == plain.inputs
        wanted = "last_hidden_state" if name == "features" else "logits"
        assert [node.name for node in session.get_outputs()] == [wanted]
        assert session.get_inputs()[0].shape == ["batch", "length"]
        assert 1e-7 < largest_difference(model, path, segments=True) < 0.5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "c.onnx"]


def test_two_texts_of_different_lengths_are_compared(tmp_path: Path) -> None:
    model = build(parse(HEADS["match"])).eval()
    made = export_onnx(model, tmp_path / "a.onnx")
    inputs = {"tokens": torch.randint(30, (3, 4)), "other": torch.randint(30, (3, 9))}
    (found,) = open_session(made.path, 1).run(None, as_fed(inputs, inputs_of(model)))
    torch.testing.assert_close(torch.from_numpy(found), model(**inputs), atol=1e-4, rtol=0)
