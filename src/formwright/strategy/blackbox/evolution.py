"""Regularised evolution: the oldest member dies, not the worst.

Paper: Real et al. 2019, https://arxiv.org/abs/1802.01548. Ageing forgets lucky measurements,
which matters where a trial is a short, noisy training run.
Differs from the paper: with several objectives a tournament is won by the best front, and within
it by the member with most room around it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from formwright.errors import InputError
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Proposal, Trial


@strategy("evolution")
@dataclass(kw_only=True, eq=False)
class RegularisedEvolution(Strategy):
    """Mutates the winners of tournaments among the latest trials.

    Args:
        population: Members alive; the search is random until there are this many.
        tournament: Members compared to pick each parent.
    """

    population: int = 50
    tournament: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.tournament <= self.population:
            raise InputError(
                f"a tournament of {self.tournament} in a population of {self.population} cannot "
                "be held; give 1 <= tournament <= population."
            )

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        rng = self.rng(number)
        alive = self.alive()
        if len(alive) < self.population:
            return self.drawn(number, pending)
        rivals = rng.sample(alive, self.tournament)
        parent = self.ordered(rivals, enough=1)[0]
        return self.mutated(parent, rng, pending)

    def alive(self) -> Sequence[Trial]:
        """The members from which parents come."""
        return self.trials[-self.population :]
