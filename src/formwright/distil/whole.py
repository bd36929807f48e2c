"""A student learns from its teacher as a whole: the task, the teacher's answers, its states.

Losses: Hinton et al. 2015, https://arxiv.org/abs/1503.02531 (answers); hidden states between layers
that both have, relative to their size.

b batch, n token, w width
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from formwright.arch import Architecture, Identity
from formwright.arch.frame import LanguageModel, MaskedLM
from formwright.distil.teacher import (
    Teacher,
    answer_loss,
    counted_answers,
    entered,
    task_loss,
    thinned,
)
from formwright.errors import InputError
from formwright.model import Model
from formwright.tasks.base import Batch
from formwright.train import Result, TrainConfig, train
from formwright.train.engine import Loss

_COMPARED = 64  # batches of the validation set, where they are short
_FEWER = 8  # the same of language models, whose every symbol is an answer
_MOST_ROWS = 200_000  # examples whose answers of the teacher are remembered


@dataclass(frozen=True)
class Teaching:
    """What a student is held to, as weights of losses.

    Args:
        task: The task's own loss.
        answers: Divergence from the teacher's answers.
        hidden: Distance from the teacher's hidden states, where widths agree.
        temperature: Of the answers that are compared.
        dropout: Of students while they learn. They begin near the teacher, whose answers say more
            than labels do, so that noise costs them more than it teaches (docs/log.md).
    """

    task: float = 0.2
    answers: float = 0.8
    hidden: float = 0.1
    temperature: float = 1.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if min(self.task, self.answers, self.hidden) < 0 or self.temperature <= 0:
            raise InputError(
                f"task={self.task}, answers={self.answers}, hidden={self.hidden} and temperature="
                f"{self.temperature} weigh losses; give numbers of 0 or more, and a temperature "
                "above 0."
            )
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout={self.dropout} must be a share, from 0 to below 1.")

    def numbers(self, config: TrainConfig) -> TrainConfig:
        """The numbers of a training, for students."""
        return config.replace(dropout=self.dropout, attention_dropout=self.dropout)


def distilled(
    student: Model,
    teacher: Teacher,
    teaching: Teaching,
    config: TrainConfig,
    *,
    out: Path | None = None,
    stop: Callable[[], bool] | None = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[Model, Result]:
    """Train a student under its teacher; as ``train``, killed and continued at will."""
    loss = teaching_loss(teacher, teaching, student.arch)
    device = teacher.device
    return train(
        student, teacher.task, config, out=out, device=device, stop=stop, on_event=on_event,
        loss=loss,
    )  # fmt: skip


def teaching_loss(teacher: Teacher, teaching: Teaching, arch: Architecture) -> Loss:
    """The loss of a student, for the engine."""
    compared = compared_states(arch, teacher.model.arch) if teaching.hidden else []
    remembered = _Remembered(teacher)

    def loss(model: Model, batch: Batch, past: Any) -> Tensor:
        x, ctx = entered(model, batch)
        if compared:
            states = model.hidden(x, ctx, [*compared, model.depth(ctx)])
            ours = counted_answers(model, states.pop(), ctx, batch)
            theirs, wanted = _states_and_answers(teacher, batch, compared)
        else:
            ours = counted_answers(model, model.run(x, ctx), ctx, batch)
            states, wanted, theirs = [], [], remembered(batch)
        found = teaching.answers * answer_loss(ours, theirs, temperature=teaching.temperature)
        if teaching.task:
            found = found + teaching.task * task_loss(teacher.task, model, ours, batch)
        for state, target in zip(states, wanted, strict=True):
            each = _distance(state, target, ctx.mask)
            found = found + teaching.hidden / len(states) * each
        return found

    return loss


def compared_states(student: Architecture, teacher: Architecture) -> list[int]:
    """Before which layers both hold the same: where the student's next layer of its own stands.

    None where the student is of another width or not made place by place.
    """
    layers = student.layers.layers
    same = len(layers) == len(teacher.layers.layers)
    if not same or student.backbone.width != teacher.backbone.width:
        return []
    kept = [n for n, layer in enumerate(layers) if not isinstance(layer, Identity)]
    return [*kept[1:], len(layers)] if kept else []


@torch.no_grad()
def _states_and_answers(
    teacher: Teacher, batch: Batch, layers: Sequence[int]
) -> tuple[Tensor, list[Tensor]]:
    """The teacher's answers and its states, from one pass."""
    model = teacher.model
    x, ctx = entered(model, batch)
    states = model.hidden(x, ctx, layers)
    return counted_answers(model, states[-1], ctx, batch), states


class _Remembered:
    """The teacher's answers, remembered by row where a task has examples with one answer each."""

    def __init__(self, teacher: Teacher) -> None:
        self.teacher, self.rows = teacher, dict[int, Tensor]()

    def __call__(self, batch: Batch) -> Tensor:
        rows = batch.rows
        if rows is None or batch.targets.ndim != 1 or len(self.rows) > _MOST_ROWS:
            return self.teacher.logits(batch)
        if not all(int(row) in self.rows for row in rows):
            answers = self.teacher.logits(batch)
            self.rows |= {int(row): answers[i] for i, row in enumerate(rows)}
        return torch.stack([self.rows[int(row)] for row in rows])


def _distance(ours: Tensor, theirs: Tensor, mask: Tensor | None) -> Tensor:
    """Mean square of the difference over that of the teacher's state, over real tokens."""
    apart, size = (x.square().mean(dim=-1) for x in (ours - theirs, theirs))
    if mask is not None:
        weight = mask.to(apart.dtype)
        apart, size = apart * weight, size * weight
    return apart.sum() / size.sum().clamp(min=1e-12)


def same_answers(student: Model, teacher: Teacher, *, batch_tokens: int) -> float:
    """Agreement on some of the validation texts; of language models on symbols evenly spread."""
    words = isinstance(teacher.model.frame.head, LanguageModel | MaskedLM)
    found = teacher.task.batches("valid", batch_tokens=batch_tokens)
    batches = list(islice(found, _FEWER if words else _COMPARED))
    return agreement(student, teacher, [thinned(b) for b in batches] if words else batches)


@torch.no_grad()
def agreement(student: Model, teacher: Teacher, batches: Sequence[Batch]) -> float:
    """The share of answers that are the teacher's own; single numbers: their correlation."""
    student.eval()
    ours, theirs = [], []
    for batch in batches:
        batch = batch.to(teacher.device)  # noqa: PLW2901
        x, ctx = entered(student, batch)
        said = counted_answers(student, student.run(x, ctx), ctx, batch)
        taught = teacher.logits(batch)
        single = taught.shape[-1] == 1
        ours.append((said.squeeze(-1) if single else said.argmax(dim=-1)).cpu().numpy())
        theirs.append((taught.squeeze(-1) if single else taught.argmax(dim=-1)).cpu().numpy())
    a, b = np.concatenate(ours), np.concatenate(theirs)
    if np.issubdtype(a.dtype, np.floating):
        return float(np.corrcoef(a, b)[0, 1]) if len(a) > 1 else 0.0
    return float((a == b).mean())
