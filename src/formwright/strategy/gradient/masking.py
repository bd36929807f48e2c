"""The worth of a block: what is lost when it is masked, on the same examples, with an error bar.

Paper: DARTFormer, Brown et al. 2022, https://arxiv.org/abs/2210.00641: a block's score is the
validation accuracy of all blocks less the accuracy without it.
Differs from the paper: answers are compared example by example. Two accuracies of 2,000 examples
each differ by a point through chance alone; how many examples were gained and how many lost says
far more, as in McNemar's test. The error below is that of the mean difference, with one example
added so that a handful of them never looks certain. Beside accuracies stand losses, example by
example: a block that makes right answers surer is worth something too. By them scores rank models
far better than by answers alone, which count a few examples each.
Where only a few blocks were live in a batch of the training, a block can be scored in such company:
by the answers of all groups with it against those of all groups without it. One block of nine is
hardly missed, since others do what it does, and all nine together were never trained; on short
lists the rank correlation with the accuracies of whole models is .66 by groups of three and .42 by
masking one of nine (docs/log.md).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from formwright.errors import InputError
from formwright.model import Model
from formwright.statistics import spearman
from formwright.tasks.base import IGNORED, Batch, Task

NOISE = 2.0  # standard errors that a difference must exceed to be believed

Rightness = np.ndarray  # one number per example: the share of its answers that is right
Measure = Literal["accuracy", "loss"]  # what the worth of a block is told by


@dataclass(frozen=True)
class Answers:
    """What a model made of some examples.

    Args:
        right: One number per example: the share of its answers that is right.
        loss: One number per example.
    """

    right: Rightness
    loss: np.ndarray

    @classmethod
    def joined(cls, parts: "Sequence[Answers]") -> "Answers":
        """Those to several batches, in order."""
        empty = np.zeros(0)
        rights, losses = [empty, *(p.right for p in parts)], [empty, *(p.loss for p in parts)]
        return cls(np.concatenate(rights), np.concatenate(losses))

    @classmethod
    def mean(cls, parts: "Sequence[Answers]") -> "Answers":
        """Those of several models to the same examples."""
        return cls(
            np.mean([part.right for part in parts], axis=0),
            np.mean([part.loss for part in parts], axis=0),
        )

    def part(self, first: int, every: int) -> "Answers":
        """Each so many-th example, beginning with one of the first."""
        return Answers(self.right[first::every], self.loss[first::every])


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


def rise(loss: np.ndarray, without: np.ndarray) -> Difference:
    """How much the losses of the same examples rise; ``gained`` counts those that do."""
    d = np.asarray(without, np.float64) - np.asarray(loss, np.float64)
    count = max(1, len(d))
    error = float(d.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf
    mean = float(d.mean()) if len(d) else 0.0
    return Difference(mean, error, int((d > 0).sum()), int((d < 0).sum()))


class Scores:
    """The blocks of one decision, each by what is lost without it.

    Args:
        whole: Answers with every live block on.
        without: Option to the answers without it.
        by: What decides between blocks.
        given: Option to the answers with it; those of the whole when not given.
    """

    def __init__(
        self,
        whole: Answers,
        without: Mapping[int, Answers],
        by: Measure = "accuracy",
        given: Mapping[int, Answers] | None = None,
    ) -> None:
        self.accuracy = float(np.mean(whole.right)) if len(whole.right) else 0.0
        self.loss = float(np.mean(whole.loss)) if len(whole.loss) else 0.0
        self.whole, self.without, self.by = whole, dict(without), by
        self.given = dict(given) if given is not None else dict.fromkeys(without, whole)
        pairs = {option: (self.given[option], found) for option, found in without.items()}
        self.answers = {o: difference(a.right, b.right) for o, (a, b) in pairs.items()}
        self.rises = {o: rise(a.loss, b.loss) for o, (a, b) in pairs.items()}
        self.parts = self.rises if by == "loss" else self.answers

    @classmethod
    def in_groups(
        cls, whole: Answers, groups: Sequence[tuple[Sequence[int], Answers]], by: Measure
    ) -> "Scores":
        """Each block by the groups with it against those without it.

        Args:
            whole: Answers with every live block on.
            groups: Options that were on together, and the answers then; each option must be in
                some of them and not in all.
            by: What decides between blocks.
        """
        options = sorted({option for on, _ in groups for option in on})
        given = {o: Answers.mean([found for on, found in groups if o in on]) for o in options}
        without = {o: Answers.mean([found for on, found in groups if o not in on]) for o in options}
        return cls(whole, without, by, given)

    def agreement(self) -> float | None:
        """Rank correlation of what two halves of the examples say; None where that is nothing."""
        if len(self.parts) < 3 or len(self.whole.right) < 4:
            return None
        halves = [
            Scores(
                self.whole.part(first, 2),
                {option: found.part(first, 2) for option, found in self.without.items()},
                self.by,
                {option: found.part(first, 2) for option, found in self.given.items()},
            )
            for first in (0, 1)
        ]
        one, other = ([half.parts[o].mean for o in self.parts] for half in halves)
        return spearman(one, other)

    def ranked(self, ties: Sequence[int] = ()) -> list[int]:
        """Options, the most valuable first; of equal ones the first in ``ties``.

        Equal scores are common, since they count examples.
        """
        place = {option: number for number, option in enumerate(ties)}
        return sorted(self.parts, key=lambda o: (-self.parts[o].mean, place.get(o, o)))

    def lead(self, first: int, second: int) -> Difference:
        """By how much the first is worth more, example by example."""
        if self.by == "loss":
            return rise(self._worth(second, "loss"), self._worth(first, "loss"))
        return difference(-self._worth(first, "right"), -self._worth(second, "right"))

    def _worth(self, option: int, what: str) -> np.ndarray:
        """What is more without an option, of each example."""
        found: np.ndarray = getattr(self.without[option], what) - getattr(self.given[option], what)
        return found


def check_answers(task: Task) -> None:
    """Refuse a task whose answers are neither right nor wrong, before anything is trained."""
    if task.metric not in ("accuracy", "macro_f1", "f1", "matthews", "entity_f1"):
        raise InputError(
            f"Blocks are scored by right and wrong answers; {task.name} is measured by "
            f"{task.metric}. Choose a task with classes or tags."
        )


def answered(task: Task, model: Model, batch: Batch) -> Answers:
    """Which answers to a batch are right, and the loss of each example, from one pass."""
    check_answers(task)
    found: Tensor = model(**batch.inputs)
    wanted = batch.targets
    losses = F.cross_entropy(
        found.float().flatten(0, -2), wanted.flatten(), ignore_index=IGNORED, reduction="none"
    ).view(wanted.shape)
    if losses.dim() > 1:  # tags: the mean over those of a text
        losses = losses.sum(dim=1) / (wanted != IGNORED).sum(dim=1).clamp(min=1)
    told = cast(Model, lambda **inputs: found)  # what was answered is not computed again
    return Answers(rightness(task, told, batch), losses.double().cpu().numpy())


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
