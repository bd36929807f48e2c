"""Out for OpenVINO: ``model.xml`` and ``model.bin``, read from an ONNX file and compared again."""

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from formwright.errors import InputError, SpecError
from formwright.export.result import Result
from formwright.export.source import Source, new_folder, write_about
from formwright.export.timing import latency, timed_length
from formwright.model.export import (
    answers_apart,
    as_fed,
    export_onnx,
    fixed_length,
    inputs_of,
    sample_inputs,
)

FILE = "model.xml"
_TOLERANCE = 1e-3  # its kernels add up in another order


def to_openvino(source: Source, out: Path) -> Result:
    """Write a model for OpenVINO, where it is installed."""
    if find_spec("openvino") is None:
        raise InputError("--to openvino needs a missing package; run: pip install openvino")
    import openvino  # noqa: PLC0415  # optional

    with new_folder(out) as folder, tempfile.TemporaryDirectory(prefix="formwright-") as scratch:
        path = Path(scratch) / "model.onnx"
        export_onnx(source.model, path, segments=source.pair)
        openvino.save_model(
            openvino.convert_model(str(path)), str(folder / FILE), compress_to_fp16=False
        )
        exact = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        loaded = openvino.Core().compile_model(str(folder / FILE), "CPU", exact)
        difference = _difference(source, loaded)
        if not difference <= _TOLERANCE:
            raise SpecError(f"{FILE} differs from the model by {difference:.2g}.")
        write_about(source, folder)
        fed = _fed(source, 1, timed_length(source))[1]
        times = latency(source, lambda: loaded(fed), timed_length(source))
    return Result(out, "openvino", difference, times)


def _fed(source: Source, batch: int, length: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the model, and the same as the file takes them."""
    inputs = sample_inputs(source.model, batch, length, segments=source.pair, seed=batch)
    return inputs, as_fed(inputs, inputs_of(source.model, segments=source.pair))


def _difference(source: Source, loaded: Any) -> float:
    model, worst = source.model.eval(), 0.0
    for batch, length in ((1, model.frame.length), (3, max(1, model.frame.length // 2))):
        inputs, fed = _fed(source, batch, fixed_length(model) or length)
        found = torch.from_numpy(loaded(fed)[0])
        with torch.no_grad():
            worst = max(worst, answers_apart(found, model(**inputs), inputs))
    return worst
