"""Trained models for elsewhere: Hugging Face, ONNX, torch programs, OpenVINO.

``export_model`` writes a new folder, whole or not at all, and checks what it wrote against the
model. One file per format.
"""

from pathlib import Path

from formwright.errors import InputError
from formwright.export.result import Result
from formwright.export.source import Source, check_free, read_source

__all__ = ["FORMATS", "Result", "Source", "export_model", "read_source"]

FORMATS = ("hf", "onnx", "torch", "openvino")


def export_model(
    folder: str | Path,
    out: str | Path,
    *,
    to: str = "onnx",
    quantize: str | None = None,
    calibrate: int = 0,
) -> Result:
    """Write the model of a folder in another format.

    Args:
        folder: A model folder.
        out: A new folder.
        to: ``hf``, ``onnx``, ``torch`` or ``openvino``.
        quantize: ``int8``, for ONNX.
        calibrate: Training rows of the task that scales are taken from; 0 finds them while running.
    """
    _check(to, quantize, calibrate)
    out = Path(out)
    check_free(out)  # before the weights are read
    source = read_source(folder)
    # each format has libraries of its own, which take a while to load
    if to == "hf":
        from formwright.export.huggingface import to_hf  # noqa: PLC0415

        return to_hf(source, out)
    if to == "torch":
        from formwright.export.program import to_torch  # noqa: PLC0415

        return to_torch(source, out)
    if to == "openvino":
        from formwright.export.openvino import to_openvino  # noqa: PLC0415

        return to_openvino(source, out)
    from formwright.export.onnx import to_onnx  # noqa: PLC0415

    return to_onnx(source, out, int8=quantize == "int8", calibrate=calibrate)


def _check(to: str, quantize: str | None, calibrate: int) -> None:
    if to not in FORMATS:
        raise InputError(f"--to is one of {', '.join(FORMATS)}, not {to!r}.")
    if quantize not in (None, "int8"):
        raise InputError(f"--quantize is int8, not {quantize!r}.")
    if quantize and to != "onnx":
        raise InputError(f"--quantize int8 is for --to onnx; {to} goes out as it is.")
    if calibrate < 0 or (calibrate and not quantize):
        raise InputError("--calibrate takes a number of rows and needs --quantize int8.")
