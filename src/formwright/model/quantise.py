"""ONNX files with matrices of int8: scales found while running, or from examples beforehand.

Dynamic quantisation measures each activation when it comes. Static quantisation runs the model on
examples first and writes the scales into the file (as pairs of quantise and dequantise).
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from formwright.errors import SpecError

# Products of matrices only, as torch does it: tables are looked up, not multiplied, and kernels of
# our convolutions are small.
_MATRICES = ["MatMul", "Gemm"]
# Weights of seven bits. x86 processors without VNNI add two products of eight bits in sixteen,
# which overflows: logits were off by .87 there, and by .08 so. Files are taken to other machines.
_REDUCED = True


def quantise_dynamic(file: Path, found: Path) -> Path:
    """Write a file again with matrices of int8, whose inputs are quantised while running."""
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415  # optional

    with _ready(file) as ready:
        quantize_dynamic(
            str(ready),
            str(found),
            weight_type=QuantType.QInt8,
            reduce_range=_REDUCED,
            op_types_to_quantize=_MATRICES,
            use_external_data_format=_is_large(file),
        )
    return found


def quantise_static(file: Path, found: Path, examples: Iterable[Mapping[str, Any]]) -> Path:
    """The same with scales from ``examples``: inputs of the file by name."""
    from onnxruntime.quantization import (  # noqa: PLC0415  # optional
        CalibrationDataReader,
        QuantFormat,
        QuantType,
        quantize_static,
    )

    class Reader(CalibrationDataReader):  # type: ignore[misc]  # the library has no types
        def __init__(self) -> None:
            self.left = iter(examples)

        def get_next(self) -> Any:
            return next(self.left, None)

    with _ready(file) as ready:
        try:
            quantize_static(
                str(ready),
                str(found),
                Reader(),
                quant_format=QuantFormat.QDQ,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                per_channel=True,
                reduce_range=_REDUCED,
                op_types_to_quantize=_MATRICES,
                use_external_data_format=_is_large(file),
            )
        except ValueError as error:  # what it says when no example came
            raise SpecError(f"The examples could not be used to calibrate: {error}") from None
    return found


@contextlib.contextmanager
def _ready(file: Path) -> Iterator[Path]:
    """The file without the shapes noted inside it, and the library without its advice.

    The library turns matrices round and then stumbles over their old shapes. The copy lies beside
    the file, where its large weights are looked for.
    """
    import onnx  # noqa: PLC0415  # optional

    model = onnx.load(str(file), load_external_data=False)
    del model.graph.value_info[:]
    copy = file.with_name(f"ready-{file.name}")
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it recommends a preparation that changes nothing here
    try:
        onnx.save(model, str(copy))
        yield copy
    finally:
        root.setLevel(level)
        copy.unlink(missing_ok=True)


def _is_large(file: Path) -> bool:
    """Whether weights lie beside the file, as they must above two gigabytes."""
    return any(file.parent.glob(f"{file.name}.*"))
