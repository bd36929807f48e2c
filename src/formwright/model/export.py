"""Models for elsewhere: ONNX files, with batch and length left open, checked against torch.

A file is written only after it was exported whole, and ``check_parity`` runs it beside the model
on shapes that were not used to export it, which is where silently fixed sizes would show.

Inputs and the answer go by the names that other tools expect:

| here          | one text         | in an encoder-decoder    |
|---------------|------------------|--------------------------|
| ``tokens``    | input_ids        | decoder_input_ids        |
| ``mask``      | attention_mask   | decoder_attention_mask   |
| ``segments``  | token_type_ids   | -                        |
| ``other``     | other_input_ids, other_attention_mask | -   |
| ``source``    | -                | input_ids, attention_mask |

The answer is ``logits``, or ``last_hidden_state`` where the head gives the vectors themselves.
Masks are whole numbers, 1 where a token is real.
"""

import contextlib
import io
import logging
import os
import re
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Features, Match, Seq2Seq
from formwright.errors import InputError, SpecError, StorageError
from formwright.files import sync_folder
from formwright.model.model import Model

_INSTALL = "pip install 'formwright[export]'"
_BLOCKS = ("bigbird", "local", "longformer", "reformer", "sparse")
_LAST_WORDS = re.compile("(input_ids|attention_mask|token_type_ids)$")
TOLERANCE = 1e-4  # of the largest difference to torch, in fp32


@dataclass(frozen=True)
class Exported:
    """What was written: the file, its inputs by name, and whether any size is fixed."""

    path: Path
    inputs: tuple[str, ...]
    batch: int | None  # None when any batch will do
    length: int | None  # None when any length will do, up to the model's longest


class Named(nn.Module):
    """A model whose inputs come in a fixed order, as an exported graph has them."""

    def __init__(self, model: Model, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, tuple(names)

    def forward(self, *inputs: Tensor) -> Tensor:
        given = dict(zip(self.names, inputs, strict=True))
        return self.model(
            **{name: value != 0 if _is_mask(name) else value for name, value in given.items()}
        )


def _is_mask(name: str) -> bool:
    return name.endswith("mask")


def inputs_of(model: Model, *, mask: bool = True, segments: bool = False) -> dict[str, str]:
    """The inputs of an exported model in order: their names here, and what others call them.

    ``segments`` is whether two texts are read in one, by a model that tells them apart.
    """
    if isinstance(model.arch.backbone, Seq2Seq):
        names = {
            "source": "input_ids",
            "source_mask": "attention_mask",
            "tokens": "decoder_input_ids",
            "mask": "decoder_attention_mask",
        }
    else:
        names = {"tokens": "input_ids", "mask": "attention_mask"}
        if isinstance(model.frame.head, Match):
            names |= {"other": "other_input_ids", "other_mask": "other_attention_mask"}
        elif segments and model.arch.backbone.embedding.segments:
            names["segments"] = "token_type_ids"
    return {ours: theirs for ours, theirs in names.items() if mask or not _is_mask(ours)}


def output_name(model: Model) -> str:
    """What others call the answer."""
    return "last_hidden_state" if isinstance(model.frame.head, Features) else "logits"


def sample_inputs(
    model: Model,
    batch: int,
    length: int,
    *,
    mask: bool = True,
    segments: bool = False,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Random arguments for a model; with masks, rows end at different places."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(1, length + 1, (batch, 1), generator=generator)
    ends[0] = length
    most = {"segments": model.arch.backbone.embedding.segments}
    found = {}
    for name in inputs_of(model, mask=mask, segments=segments):
        if _is_mask(name):
            found[name] = torch.arange(length) < ends
        else:
            high = most.get(name, model.frame.vocab)
            found[name] = torch.randint(high, (batch, length), generator=generator)
    return found


def as_fed(inputs: Mapping[str, Tensor], names: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of a model as an exported file takes them."""
    found = {}
    for ours, theirs in names.items():
        value = inputs[ours] if ours in inputs else _left_out(ours, inputs)
        found[theirs] = value.long().numpy()
    return found


def _left_out(name: str, inputs: Mapping[str, Tensor]) -> Tensor:
    """What an argument means that is not given: all tokens are real, and of one text."""
    if not _is_mask(name):
        return torch.zeros_like(inputs["tokens"])
    return torch.ones_like(inputs["tokens" if name == "mask" else name.removesuffix("_mask")])


def export_onnx(
    model: Model,
    path: str | Path,
    *,
    batch: int | None = None,
    length: int | None = None,
    mask: bool = True,
    segments: bool = False,
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
        segments: Whether it takes which of two texts a token belongs to.
        check: Run it beside the model on three shapes; nothing is written if they differ.
    """
    need_onnx()
    path = Path(path)
    if not path.parent.is_dir():
        raise StorageError(f"{path} cannot be written: there is no folder {path.parent}.")
    length = length or fixed_length(model)
    names = inputs_of(model, mask=mask, segments=segments)
    # sizes of 1 are taken for constants, so the sample has more where sizes stay open
    shape = (batch or 2, length or min(model.frame.length, 13))
    sample = sample_inputs(model, *shape, mask=mask, segments=segments)
    arguments = tuple(sample[name].long() for name in names)
    step = Named(model, tuple(names)).eval()
    program = to_onnx(
        step,
        arguments,
        list(names.values()),
        open_sizes(names, batch, length),
        outputs=[output_name(model)],
    )
    made = Exported(path, tuple(names.values()), batch, length)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
            temporary = Path(folder) / path.name
            program.save(str(temporary), external_data=False)
            if check:
                shapes = _shapes(model, made)
                check_parity(model, temporary, shapes, mask=mask, segments=segments)
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
            os.replace(temporary, path)
            sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}.") from None
    return made


def fixed_length(model: Model) -> int | None:
    """The only length an exported model can take: attention in blocks has it in its graph."""
    in_blocks = any(a.kind.NAME in _BLOCKS for a in model.arch.self_attentions())
    return model.frame.length if in_blocks else None


def _shapes(model: Model, made: Exported | None = None) -> list[tuple[int, int]]:
    """Three shapes that an exported model must take, none of them that of the sample."""
    longest = model.frame.length
    batch, length = (None, fixed_length(model)) if made is None else (made.batch, made.length)
    lengths = [length or wanted for wanted in (longest, max(1, longest // 2), max(1, longest - 3))]
    return list(zip([batch or wanted for wanted in (1, 3, 2)], lengths, strict=True))


def open_sizes(
    names: Mapping[str, str], batch: int | None, length: int | None
) -> tuple[Any, ...] | None:
    """Which sizes of each input stay open, and what they are called, as the exporter wants it."""
    if batch is not None and length is not None:
        return None
    found = []
    for name in names.values():
        text = _LAST_WORDS.sub("", name)  # "decoder_" of decoder_input_ids
        columns = {} if length is not None else {1: f"{text}length"}
        found.append(({} if batch is not None else {0: "batch"}) | columns)
    return (tuple(found),)


def to_onnx(
    module: nn.Module,
    arguments: tuple[Tensor, ...],
    names: Sequence[str],
    dynamic: tuple[Any, ...] | None = None,
    *,
    outputs: Sequence[str] = (),
    optimize: bool = True,
) -> Any:
    """Any module as an ONNX program. What cannot be exported is refused with the reason.

    Without ``optimize`` it is made a third faster; runtimes optimise by themselves.
    """
    need_onnx()
    from onnx_ir.passes import PassError  # noqa: PLC0415  # optional

    asked: dict[str, Any] = {
        "input_names": list(names),
        "output_names": list(outputs) or None,
        "dynamic_shapes": dynamic,
        "optimize": optimize,
    }
    try:
        with torch.no_grad(), quiet():
            try:
                return torch.onnx.export(module, arguments, dynamo=True, verbose=False, **asked)
            except PassError:  # it stumbles over some padding; runtimes optimise by themselves
                asked["optimize"] = False
                return torch.onnx.export(module, arguments, dynamo=True, verbose=False, **asked)
    except (InputError, SpecError):
        raise
    except Exception as error:
        raise SpecError(
            f"This architecture cannot be exported{_where(error)}: {reason_of(error)}. "
            "Give batch and length to fix the sizes, or replace that layer."
        ) from error


def check_parity(
    model: Model,
    path: str | Path,
    shapes: Sequence[tuple[int, int]] | None = None,
    *,
    mask: bool = True,
    segments: bool = False,
) -> float:
    """The largest difference between an exported file and the model, over three shapes.

    Raises ``SpecError`` when it exceeds 1e-4 or the file does not take a shape.

    Args:
        model: What was exported.
        path: The file.
        shapes: (batch, length) pairs; three different ones when not given.
        mask, segments: As it was exported.
    """
    worst = largest_difference(model, path, shapes, mask=mask, segments=segments)
    if not worst <= TOLERANCE:
        raise SpecError(f"{path} differs from the model by {worst:.2g}; at most 1e-4 is allowed.")
    return worst


def largest_difference(
    model: Model,
    path: str | Path,
    shapes: Sequence[tuple[int, int]] | None = None,
    *,
    mask: bool = True,
    segments: bool = False,
) -> float:
    """The same without a verdict, for files that are quantised."""
    need_onnx()
    session, worst = open_session(path, torch.get_num_threads()), 0.0
    names = inputs_of(model, mask=mask, segments=segments)
    for number, (batch, length) in enumerate(shapes or _shapes(model)):
        inputs = sample_inputs(model, batch, length, mask=mask, segments=segments, seed=number + 1)
        with torch.no_grad():
            expected = model.eval()(**inputs)
        try:
            (found,) = session.run(None, as_fed(inputs, names))
        except Exception as error:
            raise SpecError(
                f"{path} does not run at batch {batch}, length {length}: {reason_of(error)}."
            ) from None
        worst = max(worst, answers_apart(torch.from_numpy(found), expected, inputs))
    return worst


def open_session(path: str | Path, threads: int) -> Any:
    """An ONNX file in ONNX Runtime, on the processor."""
    import onnxruntime  # noqa: PLC0415  # optional

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is raised
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def answers_apart(found: Tensor, expected: Tensor, inputs: Mapping[str, Tensor]) -> float:
    """The largest difference, at real tokens where answers are per token."""
    apart = (found - expected).abs()
    mask = inputs.get("mask")
    if mask is not None and apart.dim() == 3 and apart.shape[:2] == mask.shape:
        apart = apart[mask]
    return float(apart.max())


def need_onnx() -> None:
    if any(find_spec(name) is None for name in ("onnx", "onnxscript", "onnxruntime")):
        raise InputError(f"Exporting needs packages that are not installed; run: {_INSTALL}")


def reason_of(error: BaseException) -> str:
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
def quiet() -> Iterator[None]:
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
