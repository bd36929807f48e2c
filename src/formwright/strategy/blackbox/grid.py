"""Grid search: every member of a small space in order, then the search is over."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from formwright.space import Decisions, Space
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Objective, Proposal, Trial, key_of


@strategy("grid")
class Grid(Strategy):
    """The first member that was not tried yet; None when all were."""

    def __init__(
        self, space: Space, objectives: Sequence[Objective], seed: int = 0, **options: Any
    ) -> None:
        super().__init__(space, objectives, seed, **options)
        self._listed = space.members()
        self._ahead: deque[Decisions] = deque()  # listed, and not known to be finished

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        while self._ahead and key_of(self._ahead[0]) in self.known:
            self._ahead.popleft()
        taken = self.known | {trial.key for trial in pending}
        for member in self._ahead:
            if key_of(member) not in taken:
                return Proposal(member, note="next")
        for member in self._listed:
            self._ahead.append(member)
            if key_of(member) not in taken:
                return Proposal(member, note="next")
        return None
