"""How long one text takes before and after: model and exported file in alternation."""

import statistics
from typing import Any

import torch

from formwright.cost.paired import Run, alternate
from formwright.export.source import Source
from formwright.model.export import fixed_length, sample_inputs

_SECONDS, _PRECISION = 1.0, 0.05


def latency(source: Source, after: Run, length: int) -> dict[str, Any]:
    """Milliseconds of the model and of ``after``, which answers one text of ``length`` tokens."""
    model = source.model.eval()
    inputs = sample_inputs(model, 1, length, segments=source.pair)

    @torch.inference_mode()
    def before() -> None:
        model(**inputs)

    rounds = alternate(after, before, seconds=_SECONDS, precision=_PRECISION)
    ratio = rounds.ratio()
    before_ms = 1e3 * statistics.median(rounds.reference)
    return {
        "length": length,
        "before_ms": before_ms,
        # by the ratio: medians of a busy machine may come from different moments
        "after_ms": before_ms * ratio.value,
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
    }


def timed_length(source: Source) -> int:
    """The length that is timed: the longest that the model reads."""
    return fixed_length(source.model) or source.length
