"""What a replacement does to the whole model: how far its answers move from the teacher's.

One block is put in place of the teacher's own, all others stay, and the answers to texts that
nothing was trained on are compared (KL divergence; squares where the answer is a number). The
state before the block is the teacher's, so only what comes after it is run.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from formwright.distil.blockwise import Library, context
from formwright.distil.cache import States
from formwright.distil.teacher import answer_loss, counted_answers, entered
from formwright.model import Model

_KEPT_BYTES = 512_000_000  # of the teacher's answers that stay in memory


class Judge:
    """Compares students with their teacher on held-out batches.

    Args:
        library: The teacher and its blocks.
        states: Of the held-out batches.
    """

    def __init__(self, library: Library, states: States) -> None:
        self.library, self.states = library, states
        self._answers: dict[int, Tensor] = {}
        self._bytes = 0

    def divergence(self, choice: Sequence[int]) -> float:
        """How far the answers of a student are from the teacher's, before it learns as a whole."""
        first = next((place for place, taken in enumerate(choice) if taken), None)
        if first is None:
            return 0.0
        total = count = 0.0
        for number in range(len(self.states.batches)):
            ours, theirs = self._run(number, choice, first), self._taught(number)
            total += float(answer_loss(ours, theirs)) * len(theirs)
            count += len(theirs)
        return max(0.0, total / max(1.0, count))

    @torch.no_grad()
    def apart(self, model: Model) -> float:
        """The same of any model, however it was made."""
        was_training, total, count = model.training, 0.0, 0.0
        model.eval()
        for number, batch in enumerate(self.states.batches):
            here = batch.to(self.library.teacher.device)
            x, ctx = entered(model, here)
            ours, theirs = (
                counted_answers(model, model.run(x, ctx), ctx, here),
                self._taught(number),
            )
            total += float(answer_loss(ours, theirs)) * len(theirs)
            count += len(theirs)
        model.train(was_training)
        return max(0.0, total / max(1.0, count))

    def scores(self, place: int, *, check: Callable[[], None]) -> list[float]:
        """The divergence with each alternative of a place, all others being the teacher's own."""
        choice, found = [0] * len(self.library.places), []
        for taken in range(len(self.library.places[place].alternatives)):
            check()
            choice[place] = taken
            found.append(self.divergence(choice))
        return found

    @torch.no_grad()
    def _run(self, number: int, choice: Sequence[int], first: int) -> Tensor:
        teacher, batch = self.library.teacher, self.states.batches[number]
        x, _, mask = self.states.pair(number, first)
        ctx = context(teacher, mask)
        for place in range(first, len(choice)):
            x = self.library.module(place, choice[place])(x, ctx)
        return counted_answers(teacher.model, x, ctx, batch.to(teacher.device))

    @torch.no_grad()
    def _taught(self, number: int) -> Tensor:
        if number in self._answers:
            return self._answers[number]
        found = self.library.teacher.logits(self.states.batches[number])
        size = found.numel() * found.element_size()
        if self._bytes + size <= _KEPT_BYTES:
            self._answers[number], self._bytes = found, self._bytes + size
        return found
