"""The worth of a block: what is lost when it is masked, on the same examples, with an error bar.

Paper: DARTFormer, Brown et al. 2022, https://arxiv.org/abs/2210.00641: a block's score is the
validation accuracy of all blocks less the accuracy without it.
Differs from the paper: answers are compared example by example. Two accuracies of 2,000 examples
each differ by a point through chance alone; how many examples were gained and how many lost says
far more, as in McNemar's test. The error below is that of the mean difference, with one example
added so that a handful of them never looks certain.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from formwright.errors import InputError
from formwright.model import Model
from formwright.tasks.base import IGNORED, Batch, Task

NOISE = 2.0  # standard errors that a difference must exceed to be believed

Rightness = np.ndarray  # one number per example: the share of its answers that is right


@dataclass(frozen=True)
class Difference:
    """How much better one set of answers is than another to the same examples."""

    mean: float
    error: float
    gained: int
    lost: int

    @property
    def certain(self) -> bool:
        """Whether chance alone would hardly do it."""
        return self.mean > NOISE * self.error


def difference(better: Rightness, worse: Rightness) -> Difference:
    """From paired answers."""
    d = np.asarray(better, np.float64) - np.asarray(worse, np.float64)
    count = max(1, len(d))
    spread = float((d * d).sum() - d.sum() ** 2 / count)
    error = math.sqrt(max(0.0, spread) + 1) / count
    return Difference(float(d.sum()) / count, error, int((d > 0).sum()), int((d < 0).sum()))


class Scores:
    """The blocks of one decision, each by what is lost without it.

    Args:
        whole: Answers with every live block on.
        without: Option to the answers without it.
    """

    def __init__(self, whole: Rightness, without: Mapping[int, Rightness]) -> None:
        self.accuracy = float(np.mean(whole)) if len(whole) else 0.0
        self.without = dict(without)
        self.parts = {option: difference(whole, found) for option, found in without.items()}

    def values(self) -> dict[int, float]:
        """Option to score: a share of all examples, negative where masking helps."""
        return {option: part.mean for option, part in self.parts.items()}

    def errors(self) -> dict[int, float]:
        """Option to the standard error of its score."""
        return {option: part.error for option, part in self.parts.items()}

    def ranked(self, ties: Sequence[int] = ()) -> list[int]:
        """Options, the most valuable first; of equal ones the first in ``ties``.

        Equal scores are common, since they count examples.
        """
        place = {option: number for number, option in enumerate(ties)}
        return sorted(self.parts, key=lambda o: (-self.parts[o].mean, place.get(o, o)))

    def lead(self, first: int, second: int) -> Difference:
        """By how much the first is worth more: the answers without either are compared."""
        return difference(self.without[second], self.without[first])


def check_answers(task: Task) -> None:
    """Refuse a task whose answers are neither right nor wrong, before anything is trained."""
    if task.metric not in ("accuracy", "macro_f1", "f1", "matthews", "entity_f1"):
        raise InputError(
            f"Blocks are scored by right and wrong answers; {task.name} is measured by "
            f"{task.metric}. Choose a task with classes or tags."
        )


def rightness(task: Task, model: Model, batch: Batch) -> Rightness:
    """Which answers to a batch are right: one number per example."""
    check_answers(task)
    found: Any = task.predictions(model, batch)
    wanted: Tensor = batch.targets
    if wanted.dim() == 1:
        return np.asarray(np.asarray(found) == wanted.cpu().numpy(), np.float64)
    rows = (row[row != IGNORED] for row in wanted.cpu().numpy())
    pairs = zip(found, rows, strict=True)
    return np.array([float(np.mean(a == b)) if len(b) else 0.0 for a, b in pairs])
