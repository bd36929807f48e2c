"""Out as a program of ``torch.export``: ``model.pt2``, which torch alone runs."""

from pathlib import Path

import torch
from torch import Tensor

from formwright.errors import SpecError
from formwright.export.result import Result
from formwright.export.source import Source, new_folder, write_about
from formwright.export.timing import latency, timed_length
from formwright.model.export import (
    TOLERANCE,
    Named,
    answers_apart,
    fixed_length,
    inputs_of,
    quiet,
    reason_of,
    sample_inputs,
)

FILE = "model.pt2"


def to_torch(source: Source, out: Path) -> Result:
    """Write a model as a program; it is loaded again and compared before it is kept."""
    with new_folder(out) as folder:
        program = _program(source)
        torch.export.save(program, folder / FILE)
        loaded = torch.export.load(folder / FILE).module()
        difference = _difference(source, loaded)
        if not difference <= TOLERANCE:
            raise SpecError(f"The program differs from the model by {difference:.2g}.")
        write_about(source, folder)
        arguments = _arguments(source, 1, timed_length(source))

        @torch.inference_mode()
        def run() -> None:
            loaded(*arguments)

        times = latency(source, run, timed_length(source))
    notes = [f"its inputs, in order: {', '.join(_names(source).values())}"]
    return Result(out, "torch", difference, times, notes=notes)


def _names(source: Source) -> dict[str, str]:
    return inputs_of(source.model, segments=source.pair)


def _arguments(source: Source, batch: int, length: int, seed: int = 0) -> tuple[Tensor, ...]:
    sample = sample_inputs(source.model, batch, length, segments=source.pair, seed=seed)
    return tuple(value.long() for value in sample.values())


def _program(source: Source) -> torch.export.ExportedProgram:
    model, names = source.model, _names(source)
    length = fixed_length(model)
    arguments = _arguments(source, 2, length or min(model.frame.length, 13))
    any_size = torch.export.Dim.DYNAMIC
    sizes = {0: any_size} | ({} if length is not None else {1: any_size})
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(
                Named(model, tuple(names)).eval(),
                arguments,
                dynamic_shapes=(tuple(sizes for _ in names),),
                strict=False,
            )
    except Exception as error:  # torch raises many kinds, some with pages of advice
        raise SpecError(
            f"This architecture cannot be exported: {reason_of(error)}. Try --to onnx or --to hf."
        ) from error


def _difference(source: Source, loaded: torch.nn.Module) -> float:
    """The largest difference on three shapes that were not exported."""
    model, worst = source.model.eval(), 0.0
    longest = model.frame.length
    for seed, (batch, length) in enumerate(((1, longest), (3, max(1, longest // 2)), (4, longest))):
        long = fixed_length(model) or length
        inputs = sample_inputs(model, batch, long, segments=source.pair, seed=seed + 1)
        with torch.no_grad():
            found = loaded(*_arguments(source, batch, long, seed + 1))
            worst = max(worst, answers_apart(found, model(**inputs), inputs))
    return worst
