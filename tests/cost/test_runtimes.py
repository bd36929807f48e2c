"""Every runtime runs every phase; memory is measured in a process of its own."""

from pathlib import Path

import pytest
import torch
from torch import nn

from formwright.arch import parse
from formwright.cost import Target, count, peak_memory
from formwright.cost import energy as energy_module
from formwright.cost import memory as memory_module
from formwright.cost.runtime import eager, prepare
from formwright.cost.step import make_step
from formwright.errors import InputError
from formwright.model import build

TINY = parse("sf in gpt2(16) for frame(50, 24, lm)")
PHASES = ({}, {"phase": "prefill"}, {"phase": "decode", "past": 4})


@pytest.mark.parametrize("phase", PHASES, ids=["pass", "prefill", "decode"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
def test_eager_runs_in_every_phase_and_type(phase: dict[str, object], dtype: str) -> None:
    prepare(TINY, Target(length=8, dtype=dtype, **phase))()  # type: ignore[arg-type]


def test_int8_changes_the_layers_and_leaves_tied_tables_alone() -> None:
    arch = parse("(sf)x2 in transformer_xl(32) for frame(50, 24, lm)")
    few = arch.backbone.embedding.replace(clusters=(20, 30), divide=2, size=None)
    arch = arch.replace(backbone=arch.backbone.replace(embedding=few))
    target = Target(length=8, dtype="int8")
    step, arguments = make_step(build(arch, seed=0).eval(), target)
    model = step.model
    maps = {name: m.weight.clone() for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    tables = {name: p.clone() for name, p in model.embedding.named_parameters()}
    exact = step(*arguments)[0]
    eager.prepare(step, arguments, target)()

    inside = {name: m for name, m in model.named_modules() if not name.startswith("embedding")}
    changed = {name: m.weight() for name, m in inside.items() if name in maps}
    assert {name.split(".")[0] for name in changed} == {"stacks", "head"}
    for name, found in changed.items():
        assert found.dtype == torch.qint8
        error = (found.dequantize() - maps[name]).abs().max()
        assert 0 < error <= found.q_scale() / 2 * 1.001
    kept = dict(model.embedding.named_parameters())
    assert kept.keys() == tables.keys()
    assert all(torch.equal(kept[name], table) for name, table in tables.items())
    answer = step(*arguments)[0]
    assert not torch.equal(answer, exact)
    assert torch.nn.functional.cosine_similarity(answer, exact, dim=-1).min() > 0.99
    prepare(arch, target.replace(phase="decode", past=3))()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp32", "int8"])
@pytest.mark.parametrize("phase", PHASES, ids=["pass", "prefill", "decode"])
def test_onnx_runtime_runs_in_every_phase(phase: dict[str, object], dtype: str) -> None:
    pytest.importorskip("onnxruntime")
    prepare(TINY, Target(runtime="onnx", length=8, dtype=dtype, **phase))()  # type: ignore[arg-type]


@pytest.mark.slow
def test_openvino_runs() -> None:
    pytest.importorskip("openvino")
    prepare(TINY, Target(runtime="openvino", length=8))()


def test_many_are_measured_as_one_is() -> None:
    arch = parse("(sf)x2 in decoder(512, position=learned) for frame(1000, 16, lm)")
    meter = memory_module.MemoryMeter(Target(length=16))
    try:
        first, second = meter.measure(arch), meter.measure(arch)
        with pytest.raises(InputError, match="longer"):
            meter.measure(TINY.replace(frame=TINY.frame.replace(length=4)))  # type: ignore[union-attr]
    finally:
        meter.close()
    alone = peak_memory(arch, Target(length=16))
    for found in (first, second):
        assert found.peak_bytes == pytest.approx(alone.peak_bytes, rel=0.15)
        assert found.peak_bytes >= 4 * count(arch).params


def test_small_models_take_as_much_memory_every_time_and_rank_by_their_size() -> None:
    sizes = {4: 512, 2: 256, 1: 64}  # layers and their inner width
    layers = [f"(sf)x{n} where f=residual(feedforward({inner}))" for n, inner in sizes.items()]
    archs = [parse(f"{text} in gpt2(96) for frame(256, 128, lm)") for text in layers]
    weights = [4 * count(arch).params for arch in archs]
    meter = memory_module.MemoryMeter(Target(length=128))
    try:
        rounds = [[meter.measure(arch).peak_bytes for arch in archs] for _ in range(3)]
    finally:
        meter.close()
    for weight, found in zip(weights, zip(*rounds, strict=True), strict=True):
        assert max(found) - min(found) < 0.6e6, found
        assert weight < min(found)
        assert max(found) < weight + 2.5e6  # a run and the objects of the model
    for found in rounds:
        assert found == sorted(found, reverse=True)


def test_a_process_of_its_own_finds_the_weights_in_memory() -> None:
    arch = parse("(sf)x4 in gpt2(512) for frame(20000, 64, lm)")
    weights = 4 * count(arch).params
    found = peak_memory(arch, Target(length=16))
    assert weights < found.peak_bytes < 1.3 * weights + 20e6
    assert found.baseline_bytes > 50e6


def test_a_measurement_that_fails_says_why_in_one_sentence() -> None:
    with pytest.raises(InputError, match="longer than the 24 positions"):
        peak_memory(TINY, Target(length=99))
    with pytest.raises(InputError, match=r"longer than 0 seconds and was stopped"):
        peak_memory(TINY, timeout=0.01)


@pytest.mark.parametrize(
    ("code", "errors", "says"),
    [(-9, "", "too little memory"), (1, "Traceback\nValueError: x", "failed: ValueError: x")],
)
def test_a_process_that_dies_is_told_apart(code: int, errors: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        memory_module._answer(code, "", errors)


def test_energy_is_what_the_counters_gained_also_when_they_go_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = tmp_path / "energy_uj"
    counter.write_text("900")
    (tmp_path / "max_energy_range_uj").write_text("1000")
    monkeypatch.setattr(energy_module, "energy_counters", lambda: [counter])
    calls = []

    def run() -> None:
        calls.append(1)
        counter.write_text(str((900 + 300 * len(calls)) % 1000))  # 300 microjoules each

    assert energy_module.joules_of(run, seconds=0.0) == pytest.approx(300e-6)
    assert len(calls) == 1
    monkeypatch.setattr(energy_module, "energy_counters", list)
    assert energy_module.energy_per_run(TINY, Target(length=8)) is None


def test_classes_that_are_more_than_channels_run_in_int8_under_onnx() -> None:
    pytest.importorskip("onnxruntime")
    arch = parse("sf in bert(16) for frame(30, 12, classify(15, pool=mean))")
    run = prepare(arch, Target(runtime="onnx", length=12, dtype="int8"))
    run()
