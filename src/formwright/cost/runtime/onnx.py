"""ONNX Runtime, in fp32 or with matrices quantised to int8 while running.

Every architecture is exported first, which takes seconds: for a final choice, not for each
candidate of a large search.
"""

import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from formwright.cost.paired import Run
from formwright.cost.step import Step
from formwright.cost.target import Target
from formwright.model.export import open_session, to_onnx
from formwright.model.quantise import quantise_dynamic


def prepare(step: Step, arguments: tuple[Tensor, ...], target: Target) -> Run:
    """Export for these very shapes and open a session."""
    program, inputs = exported(step, arguments, optimize=False)
    with tempfile.TemporaryDirectory(prefix="formwright-") as folder:
        file = save(program, Path(folder))
        if target.dtype == "int8":
            file = quantise_dynamic(file, file.with_name("quantised.onnx"))
        session = open_session(file, target.threads)
    wanted = {node.name: inputs[node.name] for node in session.get_inputs()}  # some are not used

    def run() -> None:
        session.run(None, wanted)

    return run


def exported(
    step: Step, arguments: tuple[Tensor, ...], *, optimize: bool = True
) -> tuple[Any, dict[str, Any]]:
    """A step as an ONNX program, and its inputs by name."""
    inputs = {f"input{i}": tensor.numpy() for i, tensor in enumerate(arguments)}
    answers = ["logits", *(f"kept{i}" for i in range(len(step.slots)))]
    names = answers if step.phase != "prefill" else ()  # what it then keeps is not known here
    return to_onnx(step, arguments, list(inputs), outputs=names, optimize=optimize), inputs


def save(program: Any, folder: Path) -> Path:
    """Write a program; large weights lie beside it, since one file holds two gigabytes at most."""
    file = folder / "model.onnx"
    program.save(str(file), external_data=True)
    return file
