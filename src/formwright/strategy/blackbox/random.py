"""Random search: the rival every other strategy must beat, and a good one in small budgets.

Paper: Li and Talwalkar 2019, https://arxiv.org/abs/1902.07638
"""

from collections.abc import Sequence

from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Proposal, Trial


@strategy("random")
class RandomSearch(Strategy):
    """Samples, none of them twice."""

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        return self.drawn(number, pending)
