"""Grid search: every member of a small space in order, then the search is over."""

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from formwright.space import Decisions, Enumerable
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import LISTED, Proposal, Trial, key_of


@strategy("grid")
class Grid(Strategy):
    """The first member that was not tried yet; None when all were."""

    NEEDS: ClassVar = (Enumerable,)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._listed = self.space.members()
        self._ahead: deque[Decisions] = deque()  # listed, and not known to be finished

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        while self._ahead and key_of(self._ahead[0]) in self.known:
            self._ahead.popleft()
        taken = self.known | {trial.key for trial in pending}
        for member in self._ahead:
            if key_of(member) not in taken:
                return Proposal(decisions=member, origin=LISTED)
        for member in self._listed:
            self._ahead.append(member)
            if key_of(member) not in taken:
                return Proposal(decisions=member, origin=LISTED)
        return None
