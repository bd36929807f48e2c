"""Students learn how a teacher's tokens relate: by queries, keys and values of its last attention.

Paper: AutoDistil, Xu et al. 2022, https://arxiv.org/abs/2201.12507, after MiniLMv2. A student's
heads are laid side by side and split anew into the teacher's, whatever their number. The loss says
nothing of what comes behind the last attention: its feed-forward and the head learn in tuning.
Differs from the paper where asked: channels are dealt out to relation heads (``train.distill``), so
that students of different widths that share them want the same of each.
"""

from typing import Any

import torch
from torch import Tensor

from formwright.distil.teacher import attention_of
from formwright.errors import InputError
from formwright.model import Model
from formwright.supernet.attentions import last_attention
from formwright.tasks.base import Batch
from formwright.train.distill import (
    RelationForm,
    RelationSplit,
    captured,
    relation_distance,
    relations,
)

Relations = tuple[dict[str, Tensor], Tensor | None]  # by kind (b, h, n, n), and the real tokens


class RelationLoss:
    """A loss for the engine, for plain models and for supernets under gates.

    Args:
        teacher: A trained model; labels are not looked at.
        form: Relations as the paper compares them, or as its released code does.
        heads: Relation heads; those of the teacher's last attention when not given.
        split: How channels become relation heads: ``cut`` as published, or ``dealt``.
    """

    def __init__(
        self,
        teacher: Model,
        *,
        form: RelationForm = "softmax",
        heads: int | None = None,
        split: RelationSplit = "cut",
    ) -> None:
        self.teacher = teacher.eval().requires_grad_(False)
        stack: Any = teacher.stacks["layers"]
        layers = [n for n in range(len(stack.layers)) if attention_of(teacher, n) is not None]
        if not layers:
            raise InputError("The teacher has no attention, so that it has no relations to teach.")
        self._layer = layers[-1]
        own = attention_of(teacher, self._layer)
        assert own is not None
        self._attention, self.form, self.split = own, form, split
        self.heads = heads or own.node.heads
        self._known: tuple[Batch, Relations] | None = None  # several students read one batch

    def __call__(self, model: Any, batch: Batch, past: Any = None) -> Tensor:
        theirs, mask = self.taught(batch)
        x, ctx = model.enter(**batch.inputs)
        with captured(last_attention(model)) as ours:
            model.run(x, ctx)
        return relation_distance(ours, theirs, mask=mask, form=self.form, split=self.split)

    @torch.no_grad()
    def taught(self, batch: Batch) -> Relations:
        """The teacher's relations for a batch, and which tokens are real."""
        if self._known is None or self._known[0] is not batch:
            given: Any = batch.inputs
            x, ctx = self.teacher.enter(**given)
            with captured(self._attention) as found:
                self.teacher.run(x, ctx, 0, self._layer + 1)
            split = {
                name: relations(each, self.heads, ctx.mask, self.form, split=self.split)
                for name, each in found.items()
            }
            self._known = batch, (split, ctx.mask)
        return self._known[1]
