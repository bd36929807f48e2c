"""Out as ONNX: ``model.onnx`` with task and card, and a ``run.py`` that answers texts alone."""

import shutil
from pathlib import Path
from typing import Any

from formwright.errors import FormwrightError, InputError
from formwright.export.answering import OnnxModel, examples, quality
from formwright.export.result import Result
from formwright.export.source import Source, new_folder, write_about
from formwright.export.timing import latency, timed_length
from formwright.model.export import (
    check_parity,
    export_onnx,
    fixed_length,
    largest_difference,
    need_onnx,
    sample_inputs,
)
from formwright.model.quantise import quantise_dynamic, quantise_static

FILE = "model.onnx"
_RUN = Path(__file__).with_name("run.py")


def to_onnx(source: Source, out: Path, *, int8: bool = False, calibrate: int = 0) -> Result:
    """Write a model as ONNX.

    Args:
        source: What goes out.
        out: A new folder.
        int8: Quantise matrices.
        calibrate: Find scales beforehand, on so many training rows of the task; 0 finds them while
            running.
    """
    need_onnx()
    rows = _rows(source, calibrate) if int8 and calibrate else []
    with new_folder(out) as folder:
        path = folder / FILE
        export_onnx(source.model, path, segments=source.pair, check=False)
        difference = check_parity(source.model, path, segments=source.pair)
        found = None
        if int8:
            found, difference = _quantise(source, path, rows)
        write_about(source, folder)
        if source.task is not None:
            shutil.copyfile(_RUN, folder / "run.py")
        times = latency(source, _run(source, path), timed_length(source))
    return Result(out, "onnx", difference, times, found, _notes(source))


def _rows(source: Source, calibrate: int) -> list[dict[str, Any]]:
    try:
        return examples(source, calibrate)
    except FormwrightError as error:
        reason = str(error).rstrip(".")
        raise InputError(
            f"--calibrate needs the task's training data: {reason}. Leave it out to find the "
            "scales while running."
        ) from None


def _quantise(
    source: Source, path: Path, rows: list[dict[str, Any]]
) -> tuple[dict[str, Any], float]:
    """Put an int8 file in the place of the plain one; what it costs, and how far it is off."""
    small = path.with_name("int8.onnx")
    if rows:
        quantise_static(path, small, rows)
    else:
        quantise_dynamic(path, small)
    difference = largest_difference(source.model, small, segments=source.pair)
    found = quality(source, {"fp32": path, "int8": small})
    small.replace(path)
    return found, difference


def _run(source: Source, path: Path) -> Any:
    """A call that answers one text with the file."""
    made = OnnxModel(source.model, path, segments=source.pair)
    inputs = sample_inputs(source.model, 1, timed_length(source), segments=source.pair)
    fed = made.feed(inputs)
    return lambda: made.session.run(None, fed)


def _notes(source: Source) -> list[str]:
    notes = []
    if (length := fixed_length(source.model)) is not None:
        notes.append(f"attention in blocks: it takes {length} tokens, shorter texts are filled up")
    if source.task is None:
        notes.append("the folder holds no task.json, so no run.py was written")
    return notes
