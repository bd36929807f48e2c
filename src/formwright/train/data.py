"""What the loop asks of a task. The tasks room has them; anything of this shape will do."""

from typing import Any, Protocol

from torch import Tensor

from formwright.arch import Frame
from formwright.model import Model
from formwright.ops.past import Past


class Batch(Protocol):
    """Inputs of one forward pass and what they should lead to."""

    inputs: dict[str, Tensor]  # keyword arguments of the model
    targets: Tensor
    tokens: int  # real ones, for the speed
    fresh: bool  # False when the text goes on from the batch before


class BatchSampler(Protocol):
    """The order of the training data: a pure function of the seed and the number of a batch."""

    def batch(self, step: int, /) -> Batch:
        """Batch ``step``; asking twice gives the same."""


class Task(Protocol):
    """Data, loss and metric."""

    name: str
    frame: Frame
    metric: str
    higher_is_better: bool

    def sampler(self, *, batch_tokens: int, seed: int, memory: int = 0) -> BatchSampler:
        """The order of the training data; with ``memory``, text goes on from batch to batch."""

    def loss(self, model: Model, batch: Any, past: Past | None = None) -> Tensor:
        """The mean loss of a batch."""

    def score(
        self,
        model: Model,
        split: str = "valid",
        *,
        batch_tokens: int,
        memory: int | Past | None = None,
        limit: int | None = None,
    ) -> dict[str, float]:
        """Loss, metric and what else is measured on a split, or its first ``limit`` batches.

        ``memory``: tokens remembered from batch to batch, for language models.
        """
