"""Batches of a search whose architecture learns from data that its weights never see.

Each of the two reads its own part of the training data in its own order, without a gap: which batch
a step gets follows from the step alone, so that a search which was killed goes on with the same.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from formwright.strategy.gradient.config import SearchConfig
from formwright.train.config import TrainConfig
from formwright.train.data import Task


class Dealt:
    """The data of weights and of the architecture in turn, as a sampler.

    Args:
        weights: What the weights learn from.
        choices: What the architecture learns from.
        train: Numbers of the training.
        config: Whose turn a step is.
        lanes: How many batches are read side by side; asked each time, since a search may go on
            from a checkpoint of more processes.
    """

    def __init__(
        self,
        weights: Task,
        choices: Task,
        train: TrainConfig,
        config: SearchConfig,
        lanes: Callable[[], int],
    ) -> None:
        numbers: Any = {"batch_tokens": train.batch_tokens, "memory": train.memory}
        self.weights = weights.sampler(**numbers, seed=train.seed)
        self.choices = choices.sampler(**numbers, seed=train.seed)
        self.config, self._lanes, self._accumulate = config, lanes, train.accumulate

    @property
    def each(self) -> int:
        """Batches of a step."""
        return self._accumulate * self._lanes()

    def batch(self, number: int, /) -> Any:
        """The batch of a number, as one plan after the other would be read."""
        step, part = divmod(number, self.each)
        before = self.config.turns(step)
        if self.config.teaches(step)[1]:
            found: Any = self.choices.batch(before * self.each + part)
            return replace(found, aside=True)
        return self.weights.batch((step - before) * self.each + part)
