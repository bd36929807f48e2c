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
from formwright.train.lanes import Lanes


class Dealt:
    """The data of weights and of the architecture in turn, as a sampler.

    Args:
        weights: What the weights learn from.
        choices: What the architecture learns from.
        train: Numbers of the training.
        config: Whose turn a step is.
        lanes: What is read side by side; asked each time, since a search may go on from a
            checkpoint of more processes.
    """

    def __init__(
        self,
        weights: Task,
        choices: Task,
        train: TrainConfig,
        config: SearchConfig,
        lanes: Callable[[], Lanes],
    ) -> None:
        numbers: Any = {"batch_tokens": train.batch_tokens, "memory": train.memory}
        self.weights = weights.sampler(**numbers, seed=train.seed)
        self.choices = choices.sampler(**numbers, seed=train.seed)
        self.config, self._lanes, self._accumulate = config, lanes, train.accumulate

    def batch(self, number: int, /) -> Any:
        """The batch of a number, as one plan after the other would be read."""
        lanes, each = self._lanes(), self._accumulate
        turn, lane = divmod(number, lanes.count)
        step, part = divmod(turn, each)
        before = self.config.turns(step)
        if self.config.teaches(step)[1]:
            place = lanes.number(before * each + part, lane, self.choices)
            found: Any = self.choices.batch(place)
            return replace(found, aside=True)
        return self.weights.batch(lanes.number((step - before) * each + part, lane, self.weights))
