"""A loss that lets a student answer as its teacher does, beside what the labels say.

Paper: Hinton et al. 2015, https://arxiv.org/abs/1503.02531.
"""

from typing import Any

import torch
from torch import Tensor

from formwright.errors import InputError
from formwright.model import Model
from formwright.ops.past import Past
from formwright.tasks import Task
from formwright.tasks.base import IGNORED
from formwright.tasks.examples import ExampleTask
from formwright.train.distill import logit_loss


def teachable(task: Task) -> bool:
    """Whether answers to a task are scores of classes or tags."""
    return isinstance(task, ExampleTask) and bool(task.labels) and task.KIND in ("classify", "tag")


class Taught:
    """The task's loss and the distance from a teacher's answers, mixed.

    Args:
        task: With classes or tags, whose answers are scores that two models can be compared by.
        teacher: Who answers; it is not changed.
        share: Of the distance in the loss, from 0 to 1.
    """

    def __init__(self, task: Task, teacher: Model, share: float) -> None:
        if not teachable(task):
            raise InputError(
                f"{task.name} has no classes or tags for which a teacher could stand in; set "
                "teach=0."
            )
        self.task, self.teacher, self.share = task, teacher.eval(), share

    def __call__(self, model: Any, batch: Any, past: Past | None = None) -> Tensor:
        answers: Tensor = model(**batch.inputs)
        with torch.no_grad():
            wanted: Tensor = self.teacher(**batch.inputs)
        # what was answered is not computed again
        own = self.task.loss(lambda **inputs: answers, batch, past)  # type: ignore[arg-type]
        mask = batch.targets != IGNORED
        apart = logit_loss(answers.float(), wanted.float(), mask=mask)
        return (1 - self.share) * own + self.share * apart
