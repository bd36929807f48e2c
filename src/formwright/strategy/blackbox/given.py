"""What was found elsewhere, then random search beside it: how the result of a supernet is judged.

A gradient search ends in a few architectures. To be compared they are trained and measured like
any trial, together with hand-designed ones and with as many random members as wished.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import CONTROL, Proposal, Trial


@strategy("given")
@dataclass(kw_only=True, eq=False)
class Given(Strategy):
    """Some members in order, then random ones, none of them twice.

    Args:
        candidates: What to try, as proposals.
        random: Random members that follow, as a control.
    """

    candidates: Sequence[Proposal] = ()
    random: int = 0

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        if number < len(self.candidates):
            return self.candidates[number]
        if number >= len(self.candidates) + self.random:
            return None
        found = self.drawn(number, pending)
        return found and replace(found, origin=CONTROL)
