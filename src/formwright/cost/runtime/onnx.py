"""ONNX Runtime, in fp32 or with matrices quantised to int8 while running.

Every architecture is exported first, which takes seconds: for a final choice, not for each
candidate of a large search.
"""

import logging
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from torch import Tensor

from formwright.cost.paired import Run
from formwright.cost.step import Step
from formwright.cost.target import Target
from formwright.model.export import to_onnx


def prepare(step: Step, arguments: tuple[Tensor, ...], target: Target) -> Run:
    """Export for these very shapes and open a session."""
    names = [f"input{i}" for i in range(len(arguments))]
    program = to_onnx(step, arguments, names, optimize=False)
    with tempfile.TemporaryDirectory(prefix="formwright-") as folder:
        file = save(program, Path(folder))
        if target.dtype == "int8":
            file = _quantised(file)
        session = _session(file, target.threads)
    inputs = fed(arguments, {node.name for node in session.get_inputs()})

    def run() -> None:
        session.run(None, inputs)

    return run


def fed(arguments: tuple[Tensor, ...], wanted: Collection[str]) -> dict[str, Any]:
    """What a runtime is given; inputs that the step does not use are left out."""
    named = ((f"input{i}", argument.numpy()) for i, argument in enumerate(arguments))
    return {name: value for name, value in named if name in wanted}


def save(program: Any, folder: Path) -> Path:
    """Write a program; large weights lie beside it, since one file holds two gigabytes at most."""
    file = folder / "model.onnx"
    program.save(str(file), external_data=True)
    return file


def _quantised(file: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415  # optional

    found = file.with_name("quantised.onnx")
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it recommends a preparation that changes nothing here
    try:
        quantize_dynamic(str(file), str(found), weight_type=QuantType.QInt8)
    finally:
        root.setLevel(level)
    return found


def _session(file: Path, threads: int) -> Any:
    import onnxruntime  # noqa: PLC0415  # optional

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
