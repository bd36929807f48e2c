"""OpenVINO, in fp32 or bf16, reading the model through ONNX."""

import tempfile
from pathlib import Path

from torch import Tensor

from formwright.cost.paired import Run
from formwright.cost.runtime.onnx import exported, save
from formwright.cost.step import Step
from formwright.cost.target import Target


def prepare(step: Step, arguments: tuple[Tensor, ...], target: Target) -> Run:
    """Export for these very shapes and compile for the processor."""
    import openvino  # noqa: PLC0415  # optional

    program, inputs = exported(step, arguments)
    settings = {
        "INFERENCE_NUM_THREADS": target.threads,
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[target.dtype],
        "PERFORMANCE_HINT": "LATENCY",
    }
    with tempfile.TemporaryDirectory(prefix="formwright-") as folder:
        model = openvino.Core().compile_model(str(save(program, Path(folder))), "CPU", settings)
    request = model.create_infer_request()
    wanted = {name for port in model.inputs for name in port.get_names()}
    inputs = {name: value for name, value in inputs.items() if name in wanted}

    def run() -> None:
        request.infer(inputs)

    return run
