"""Models for elsewhere: ONNX files, with batch and length left open, checked against torch.

A file is written only after it was exported whole, and ``check_parity`` runs it beside the model
on shapes that were not used to export it, which is where silently fixed sizes would show.
"""

import contextlib
import io
import logging
import os
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Match, Seq2Seq
from formwright.errors import InputError, SpecError, StorageError
from formwright.files import sync_folder
from formwright.model.model import Model

_INSTALL = "pip install 'formwright[export]'"
_BLOCKS = ("bigbird", "local", "longformer", "reformer", "sparse")
_TOLERANCE = 1e-4  # of the largest difference to torch, in fp32


@dataclass(frozen=True)
class Exported:
    """What was written: the file, its inputs by name, and whether any size is fixed."""

    path: Path
    inputs: tuple[str, ...]
    batch: int | None  # None when any batch will do
    length: int | None  # None when any length will do, up to the model's longest


class _Named(nn.Module):
    """A model whose inputs come in a fixed order, as an exported graph has them."""

    def __init__(self, model: Model, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.model(**dict(zip(self.names, inputs, strict=True)))


def input_names(model: Model, *, mask: bool = True) -> tuple[str, ...]:
    """The inputs an exported model has, in order."""
    names = ["tokens"]
    if isinstance(model.arch.backbone, Seq2Seq):
        names.append("source")
    if isinstance(model.frame.head, Match):
        names.append("other")
    masks = {"tokens": "mask", "source": "source_mask", "other": "other_mask"}
    return (*names, *(masks[name] for name in names)) if mask else tuple(names)


def sample_inputs(
    model: Model, batch: int, length: int, *, mask: bool = True, seed: int = 0
) -> dict[str, Tensor]:
    """Random inputs of a shape; with masks, rows end at different places."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    ends = torch.randint(1, length + 1, (batch, 1), generator=generator)
    ends[0] = length
    for name in input_names(model, mask=mask):
        if name.endswith("mask"):
            found[name] = torch.arange(length) < ends
        else:
            shape = (batch, length)
            found[name] = torch.randint(model.frame.vocab, shape, generator=generator)
    return found


def export_onnx(
    model: Model,
    path: str | Path,
    *,
    batch: int | None = None,
    length: int | None = None,
    mask: bool = True,
    check: bool = True,
) -> Exported:
    """Write a model as an ONNX file and check it against the model.

    Attention that cuts the text into blocks has its length written into the graph. A model with
    such attention is exported for one length, the longest when none is given, and the result
    says so; shorter texts are padded and masked.

    Args:
        model: What to export; it is exported as in evaluation, without dropout.
        path: The file to write, whole or not at all.
        batch: The only batch size it will take; any when not given.
        length: The only length it will take; any when not given, where the operators allow it.
        mask: Whether it takes a mask of real tokens beside each text.
        check: Run it beside the model on three shapes; nothing is written if they differ.
    """
    _need_onnx()
    path = Path(path)
    if not path.parent.is_dir():
        raise StorageError(f"{path} cannot be written: there is no folder {path.parent}.")
    if length is None and any(a.kind.NAME in _BLOCKS for a in model.arch.self_attentions()):
        length = model.frame.length
    names = input_names(model, mask=mask)
    # sizes of 1 are taken for constants, so the sample has more where sizes stay open
    shape = (batch or 2, length or min(model.frame.length, 13))
    sample = sample_inputs(model, *shape, mask=mask)
    arguments = tuple(sample[name] for name in names)
    step = _Named(model, names).eval()
    program = to_onnx(step, arguments, names, _open(names, batch, length))
    made = Exported(path, names, batch, length)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
            temporary = Path(folder) / path.name
            program.save(str(temporary), external_data=False)
            if check:
                check_parity(model, temporary, _shapes(model, made), mask=mask)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from None
    return made


def _shapes(model: Model, made: Exported | None = None) -> list[tuple[int, int]]:
    """Three shapes that an exported model must take, none of them that of the sample."""
    longest = model.frame.length
    batch, length = (made.batch, made.length) if made is not None else (None, None)
    lengths = [length or wanted for wanted in (longest, max(1, longest // 2), max(1, longest - 3))]
    return list(zip([batch or wanted for wanted in (1, 3, 2)], lengths, strict=True))


def _open(names: Sequence[str], batch: int | None, length: int | None) -> tuple[Any, ...] | None:
    """Which sizes of each input stay open, as torch.export wants it."""
    if batch is not None and length is not None:
        return None
    rows = {} if batch is not None else {0: torch.export.Dim.DYNAMIC}
    columns = {} if length is not None else {1: torch.export.Dim.DYNAMIC}
    return (tuple({**rows, **columns} for _ in names),)


def to_onnx(
    module: nn.Module,
    arguments: tuple[Tensor, ...],
    names: Sequence[str],
    dynamic: tuple[Any, ...] | None = None,
    *,
    optimize: bool = True,
) -> Any:
    """Any module as an ONNX program. What cannot be exported is refused with the reason.

    Without ``optimize`` it is made a third faster; runtimes optimise by themselves.
    """
    _need_onnx()
    from onnx_ir.passes import PassError  # noqa: PLC0415  # optional

    asked: dict[str, Any] = {
        "input_names": list(names),
        "dynamic_shapes": dynamic,
        "optimize": optimize,
    }
    try:
        with torch.no_grad(), _quiet():
            try:
                return torch.onnx.export(module, arguments, dynamo=True, verbose=False, **asked)
            except PassError:  # it stumbles over some padding; runtimes optimise by themselves
                asked["optimize"] = False
                return torch.onnx.export(module, arguments, dynamo=True, verbose=False, **asked)
    except (InputError, SpecError):
        raise
    except Exception as error:
        raise SpecError(
            f"This architecture cannot be exported{_where(error)}: {_reason(error)}. "
            "Give batch and length to fix the sizes, or replace that layer."
        ) from error


def check_parity(
    model: Model,
    path: str | Path,
    shapes: Sequence[tuple[int, int]] | None = None,
    *,
    mask: bool = True,
) -> float:
    """The largest difference between an exported file and the model, over three shapes.

    Raises ``SpecError`` when it exceeds 1e-4 or the file does not take a shape.

    Args:
        model: What was exported.
        path: The file.
        shapes: (batch, length) pairs; three different ones when not given.
        mask: As it was exported.
    """
    _need_onnx()
    session, worst = open_session(path, torch.get_num_threads()), 0.0
    for number, (batch, length) in enumerate(shapes or _shapes(model)):
        inputs = sample_inputs(model, batch, length, mask=mask, seed=number + 1)
        with torch.no_grad():
            expected = model.eval()(**inputs)
        try:
            (found,) = session.run(None, {name: t.numpy() for name, t in inputs.items()})
        except Exception as error:
            raise SpecError(
                f"{path} does not run at batch {batch}, length {length}: {_reason(error)}."
            ) from None
        worst = max(worst, _difference(torch.from_numpy(found), expected, inputs))
    if not worst <= _TOLERANCE:
        raise SpecError(f"{path} differs from the model by {worst:.2g}; at most 1e-4 is allowed.")
    return worst


def open_session(path: str | Path, threads: int) -> Any:
    """An ONNX file in ONNX Runtime, on the processor."""
    import onnxruntime  # noqa: PLC0415  # optional

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _difference(found: Tensor, expected: Tensor, inputs: dict[str, Tensor]) -> float:
    """The largest difference, at real tokens where answers are per token."""
    apart = (found - expected).abs()
    mask = inputs.get("mask")
    if mask is not None and apart.dim() == 3 and apart.shape[:2] == mask.shape:
        apart = apart[mask]
    return float(apart.max())


def _need_onnx() -> None:
    if any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")):
        raise InputError(f"Exporting needs packages that are not installed; run: {_INSTALL}")


def _reason(error: BaseException) -> str:
    """The first line that says something, of an error that may have hundreds."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__).rstrip(".")[:200]


def _where(error: BaseException) -> str:
    """The operator's file that was running, where the error tells."""
    here = f"{os.sep}formwright{os.sep}ops{os.sep}"
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    frames = [frame for cause in causes for frame in traceback.extract_tb(cause.__traceback__)]
    files = [frame.filename for frame in frames if here in frame.filename]
    return f" ({Path(files[-1]).stem})" if files else ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's progress and its warnings about its own parts."""
    noisy = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "torch.export")]
    levels = [logger.level for logger in noisy]
    for logger in noisy:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(noisy, levels, strict=True):
            logger.setLevel(level)
