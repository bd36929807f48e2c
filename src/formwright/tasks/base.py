"""What a task is: data, loss and metric, and the frame and backbone that they need.

b batch, n token
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from formwright.arch import Architecture, Frame, Style, parse
from formwright.errors import InputError, Stopped
from formwright.model import Model
from formwright.ops.past import Past
from formwright.trial import Objective

if TYPE_CHECKING:
    from formwright.tasks.reading import Reading

IGNORED = -100  # a target that is not scored, as torch's cross-entropy has it


@dataclass
class Batch:
    """Examples that are read together.

    Args:
        inputs: Keyword arguments of ``Model.forward``; masks are left out where nothing is padded.
        targets: (b, n) for language models and tags, with -100 where nothing is scored; (b,) for
            classes (whole numbers) and regression (floats); (b, 2) first and last token of a span.
        count: Scored targets, which the loss is averaged over.
        tokens: Real tokens, without padding.
        padding: Share of the positions that are padding.
        fresh: False where a stream of text goes on from the batch before.
        rows: Which examples of the split these are, where they are examples.
        aside: Whether it is of training data that weights never see, which has a memory of its own.
    """

    inputs: dict[str, Tensor]
    targets: Tensor
    count: int
    tokens: int
    padding: float
    fresh: bool = True
    rows: np.ndarray | None = None
    aside: bool = False

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        inputs = {name: value.to(device, non_blocking=True) for name, value in self.inputs.items()}
        return replace(self, inputs=inputs, targets=self.targets.to(device, non_blocking=True))


class BatchSampler(ABC):
    """The order of the training data, a pure function of (seed, step).

    Any step can be asked for at any time, so a resumed run sees what an uninterrupted one sees.
    """

    steps_per_epoch: int

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """What training step ``step`` (from 0) learns from."""


class Task(ABC):
    """Something to learn, and how well it was learnt.

    Attributes:
        name: As the user wrote it, such as ``classify:reviews.csv``.
        frame: Vocabulary, longest input and head.
        metric: The number of ``score`` that counts most.
    """

    name: str
    frame: Frame
    metric: str
    higher_is_better: bool = True

    @property
    def objective(self) -> Objective:
        """Its metric as what a search makes large or small."""
        return Objective(self.metric, "max" if self.higher_is_better else "min")

    @abstractmethod
    def sampler(self, *, batch_tokens: int, seed: int, memory: int = 0) -> BatchSampler:
        """The order of training, in batches of about ``batch_tokens`` positions.

        ``memory``: tokens a language model remembers from batch to batch. With any, each batch
        goes on where the one before stopped; without, segments come in an order of chance.
        """

    @abstractmethod
    def batches(self, split: str = "valid", *, batch_tokens: int) -> Iterator[Batch]:
        """The whole of ``valid`` or ``test``, each example once, in an order that never changes."""

    @abstractmethod
    def loss(self, model: Model, batch: Batch, past: Past | None = None) -> Tensor:
        """The mean loss over ``batch.count`` targets, to be differentiated."""

    @abstractmethod
    def predictions(self, model: Model, batch: Batch) -> Any:
        """The model's answers, one per example."""

    @abstractmethod
    def style(self, width: int) -> Style:
        """Backbone and letters for a string of layers that names none."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Rows per split, labels, lengths and examples, as ``formwright tasks show`` prints."""

    def score(
        self,
        model: Model,
        split: str = "valid",
        *,
        batch_tokens: int,
        memory: int | Past | None = None,
        limit: int | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> dict[str, float]:
        """Loss and metrics on a split; the model's mode is put back afterwards.

        Args:
            model: What is measured.
            split: ``valid`` or ``test``.
            batch_tokens: Positions of a batch.
            memory: Tokens that language models remember from batch to batch, as Transformer-XL
                is measured, or an empty memory that says more, such as a ``clamp``.
            limit: Measure on so many batches only: the first of a text, else evenly spread.
            stop: Asked before each batch; True raises ``Stopped``.
        """
        was_training = model.training
        model.eval()
        try:
            with torch.no_grad():
                found = _heeding(self._chosen(split, batch_tokens, limit), stop)
                return self._score(model, split, found, memory)
        finally:
            model.train(was_training)

    def _chosen(self, split: str, batch_tokens: int, limit: int | None) -> Iterator[Batch]:
        return islice(self.batches(split, batch_tokens=batch_tokens), limit)

    @abstractmethod
    def _score(
        self, model: Model, split: str, batches: Iterable[Batch], memory: int | Past | None
    ) -> dict[str, float]: ...

    def reading(self) -> "Reading | None":
        """How a model of this task reads new texts; None where only the task itself knows."""
        return None

    def architecture(self, text: str, width: int) -> Architecture:
        """The architecture that a string of layers means for this task, ready to be built."""
        return parse(text, defaults=self.style(width)).bind(self.frame).check()

    def check_budget(self, batch_tokens: int) -> int:
        """The number of tokens of a batch, if it is one."""
        if batch_tokens < 1:
            raise InputError(f"A batch of {batch_tokens} tokens is none; give at least 1.")
        return batch_tokens


def _heeding(batches: Iterator[Batch], stop: Callable[[], bool] | None) -> Iterator[Batch]:
    for batch in batches:
        if stop is not None and stop():
            raise Stopped
        yield batch


def device_of(model: Model) -> torch.device:
    """Where a model's weights are."""
    return next(model.parameters()).device


def length_summary(lengths: np.ndarray) -> dict[str, float]:
    """Shortest, mean, 95 % and longest."""
    if len(lengths) == 0:
        return {"min": 0, "mean": 0.0, "p95": 0, "max": 0}
    return {
        "min": int(lengths.min()),
        "mean": round(float(lengths.mean()), 2),
        "p95": int(np.percentile(lengths, 95, method="higher")),
        "max": int(lengths.max()),
    }


def missing_split(name: str, split: str, known: Mapping[str, Any]) -> InputError:
    """What to say when a split is asked for that the task does not have."""
    if split not in ("valid", "test"):
        return InputError(f"A task is measured on 'valid' or 'test', not on {split!r}.")
    have = ", ".join(known) or "none"
    return InputError(
        f"{name} has no {split} split (it has: {have}). Give one with {split}=PATH, "
        f"or put a file named {split} beside the training data."
    )
