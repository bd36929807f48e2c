"""What is known of a model, as it stands in ``card.json`` beside its weights."""

from collections.abc import Mapping
from typing import Any

from formwright.versions import versions

LICENCE = (
    "The weights were learnt from the data named here: whatever its licence asks of models that "
    "are trained on it holds for them."
)


def new_card(
    metric: str, scores: Mapping[str, float], trained: Mapping[str, Any]
) -> dict[str, Any]:
    """The card of a model that has just been trained; a search adds what it knows.

    Args:
        metric: What counted.
        scores: On the validation set.
        trained: How: task, steps, seconds, seed.
    """
    return {
        "metric": metric,
        "scores": dict(scores),
        "interval": None,
        "latency": None,
        "found": {},
        "trained": dict(trained),
        "versions": versions(),
        "licence": LICENCE,
    }
