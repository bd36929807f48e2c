"""How far a score may be off: 95 % intervals from the validation examples and from seeds."""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import torch

from formwright.model import Model
from formwright.tasks import Task
from formwright.tasks.base import Batch, device_of
from formwright.train import TrainConfig

_NORMAL = 1.96
# What 2, 3, ... seeds ask for in place of it (Student). Two say so little of their own spread that
# the true factor, 12.7, would call everything a tie; they get that of three.
_STUDENT = (4.303, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_CORRELATIONS = ("matthews", "spearman", "pearson")
_OF_TEXTS = ("bleu", "sacrebleu", "exact", "entity_f1")  # measured on whole texts, not on tokens
_SCALES = {"bleu": 100.0, "sacrebleu": 100.0}  # of metrics that end elsewhere than at 1
_BATCHES = 16  # that the spread of a loss is taken from


def interval(values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """95 % around the mean of several seeds.

    Args:
        values: The metric of each seed.
        errors: Its standard error over validation examples. They are the same examples for every
            seed, so more seeds do not make it smaller; the spread over seeds they do.
    """
    mean, count = statistics.fmean(values), len(values)
    half = _NORMAL * statistics.fmean(errors)
    if count > 1:
        factor = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else _NORMAL + 2.5 / count
        half = math.hypot(half, factor * statistics.stdev(values) / math.sqrt(count))
    return mean - half, mean + half


def standard_error(
    task: Task, model: Model, scores: Mapping[str, float], config: TrainConfig
) -> float:
    """Of a task's metric, from the examples that it was measured on.

    Shares (accuracy, exact, F1): that of a share, sqrt(p (1 - p) / n), the most that answers
    between 0 and 1 can have; for BLEU the same of a hundred. A metric of the user's that leaves
    this range is taken as half of what it could be. Correlations: (1 - r^2) / sqrt(n - 1).
    Losses and what follows from them: the spread over validation batches. Tokens of one text count
    as examples of their own where each has an answer.
    """
    value = scores[task.metric]
    if not task.higher_is_better:
        return _loss_error(task, model, scores, config)
    batches = list(islice(_batches(task, config), config.score_batches))
    texts = task.metric in _OF_TEXTS
    count = sum(_texts(batch) if texts else batch.count for batch in batches)
    if task.metric in _CORRELATIONS:
        return (1 - value**2) / math.sqrt(max(1, count - 1))
    scale = _SCALES.get(task.metric, 1.0 if 0 <= value <= 1 else 2 * abs(value))
    share = min(1.0, abs(value) / scale)
    return scale * math.sqrt(share * (1 - share) / max(1, count))


def _loss_error(
    task: Task, model: Model, scores: Mapping[str, float], config: TrainConfig
) -> float:
    """The spread of batch losses, carried over to the metric."""
    batches = list(islice(_batches(task, config), config.score_batches))
    device, was_training = device_of(model), model.training
    model.eval()
    with torch.no_grad():
        found = [float(task.loss(model, batch.to(device))) for batch in batches[:_BATCHES]]
    model.train(was_training)
    if len(found) < 2:
        return 0.0
    error = statistics.stdev(found) / math.sqrt(len(batches))
    if task.metric == "perplexity":
        return scores["perplexity"] * error
    return error * scores[task.metric] / scores["loss"] if scores["loss"] else error


def _batches(task: Task, config: TrainConfig) -> Any:
    return task.batches("valid", batch_tokens=config.batch_tokens)


def _texts(batch: Batch) -> int:
    return len(batch.rows) if batch.rows is not None else batch.count
