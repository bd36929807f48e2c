"""Regularised evolution: the oldest member dies, not the worst.

Paper: Real et al. 2019, https://arxiv.org/abs/1802.01548. Ageing forgets lucky measurements,
which matters where a trial is a short, noisy training run.
Differs from the paper: with several objectives a tournament is won by the best front, and within
it by the member with most room around it.
"""

from collections.abc import Sequence
from typing import Any

from formwright.errors import InputError
from formwright.space import Space
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Objective, Proposal, Trial


@strategy("evolution")
class RegularisedEvolution(Strategy):
    """Mutates the winners of tournaments among the latest trials.

    Args:
        space: Where proposals come from.
        objectives: What counts.
        seed: The same seed and the same history give the same proposals.
        population: Members alive; the search is random until there are this many.
        tournament: Members compared to pick each parent.
        options: ``limits``.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[Objective],
        seed: int = 0,
        population: int = 50,
        tournament: int = 10,
        **options: Any,
    ) -> None:
        super().__init__(space, objectives, seed, **options)
        if not 1 <= tournament <= population:
            raise InputError(
                f"a tournament of {tournament} in a population of {population} cannot be held; "
                "give 1 <= tournament <= population."
            )
        self.population, self.tournament = population, tournament

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        rng = self.rng(number)
        alive = self.alive()
        if len(alive) < self.population:
            found = self.fresh(lambda looks: self.sample(rng, looks, pending), rng, pending)
            return None if found is None else Proposal(found, note="sample")
        rivals = rng.sample(alive, self.tournament)
        parent = self.ordered(rivals, enough=1)[0]
        found = self.fresh(
            lambda looks: self.space.mutate(parent.decisions, rng, looks=looks), rng, pending
        )
        return None if found is None else Proposal(found, (parent.number,), note="mutation")

    def alive(self) -> Sequence[Trial]:
        """The members from which parents come."""
        return self.trials[-self.population :]
