"""What was found elsewhere, then random search beside it: how the result of a supernet is judged.

A gradient search ends in a few architectures. To be compared they are trained and measured like
any trial, together with hand-designed ones and with as many random members as wished.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from formwright.space import Space
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Objective, Proposal, Trial


@strategy("given")
class Given(Strategy):
    """Some members in order, then random ones, none of them twice.

    Args:
        candidates: Pairs of a note and decisions.
        random: Random members that follow.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[Objective],
        seed: int = 0,
        *,
        candidates: Sequence[tuple[str, Mapping[str, Any]]] = (),
        random: int = 0,
        limits: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(space, objectives, seed, limits=limits)
        self.candidates = [(note, dict(decisions)) for note, decisions in candidates]
        self.random = random

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        if number < len(self.candidates):
            note, decisions = self.candidates[number]
            return Proposal(decisions, note=note)
        if number >= len(self.candidates) + self.random:
            return None
        rng = self.rng(number)
        found = self.fresh(lambda looks: self.sample(rng, looks, pending), rng, pending)
        return None if found is None else Proposal(found, note="random")
