"""Blocks that are trained alone, between the hidden states of a teacher, and models made of them.

Paper: NAS-BERT, Xu et al. 2021, https://arxiv.org/abs/2105.14444. A block reads what the teacher's
group of layers reads, not what the block before it says, so that none depends on another.

b batch, n token, w width
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from formwright.distil.teacher import answer_loss, counted_answers
from formwright.errors import InputError
from formwright.model import Model
from formwright.ops.base import Context
from formwright.space import Decisions
from formwright.supernet import Supernet
from formwright.tasks.base import Batch
from formwright.train.distill import hidden_loss

Piece = tuple[Supernet, Decisions]  # a block, and the member of it that is meant


def groups(layers: int, blocks: int) -> list[tuple[int, int]]:
    """The layers of a teacher that each block stands for: whole pairs, as even as can be."""
    pairs = layers // 2
    if layers % 2 or not 1 <= blocks <= pairs:
        raise InputError(
            f"A teacher of {layers} sub-layers cannot be cut into {blocks} groups; give 1 to "
            f"{max(1, pairs)}."
        )
    ends = [2 * (number * pairs // blocks) for number in range(blocks + 1)]
    return list(pairwise(ends))


class BlockLoss:
    """A loss for the engine: how far a block is from the teacher's layers, mean squared.

    Args:
        teacher: A trained model.
        start: Its first layer that the block stands for.
        stop: Its first layer that it does not.
    """

    def __init__(self, teacher: Model, start: int, stop: int) -> None:
        self.teacher = teacher.eval().requires_grad_(False)
        self.start, self.stop = start, stop
        self._known: tuple[Batch, tuple[Tensor, Tensor, Tensor | None]] | None = None

    def __call__(self, model: Any, batch: Batch, past: Any = None) -> Tensor:
        before, after, mask = self.taught(batch)
        return hidden_loss(model.run(before, Context(mask=mask)), after, mask=mask)

    @torch.no_grad()
    def taught(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor | None]:
        """The teacher's stream (b, n, w) before and after its layers, and the real tokens."""
        if self._known is None or self._known[0] is not batch:
            given: Any = batch.inputs
            x, ctx = self.teacher.enter(**given)
            before, after = self.teacher.hidden(x, ctx, (self.start, self.stop))
            self._known = batch, (before, after, ctx.mask)
        return self._known[1]


@torch.no_grad()
def whole_loss(teacher: Model, pieces: Sequence[Piece], batches: Iterable[Batch]) -> float:
    """How far the answers of blocks in a row are from the teacher's, whose ends they borrow."""
    total, read = 0.0, 0
    for batch in batches:
        given: Any = batch.inputs
        x, ctx = teacher.enter(**given)
        theirs = counted_answers(teacher, teacher.run(x, ctx), ctx, batch)
        for supernet, decisions in pieces:
            with supernet.gated(decisions):
                x = supernet.run(x, Context(mask=ctx.mask))
        total += float(answer_loss(counted_answers(teacher, x, ctx, batch), theirs))
        read += 1
    return total / max(1, read)
