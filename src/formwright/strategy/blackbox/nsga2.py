"""NSGA-II: the best fronts survive, and within a front those with most room around them.

Paper: Deb et al. 2002, https://doi.org/10.1109/4235.996017
Differs from the paper: crossover takes each decision from one parent (decisions are not real
numbers), and children are never repeats of what was tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from formwright.errors import InputError
from formwright.space import Crossable, Decisions, Looks
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import CROSSING, Proposal, Trial


@strategy("nsga2")
@dataclass(kw_only=True, eq=False)
class Nsga2(Strategy):
    """Evolution in generations, for several objectives.

    Args:
        population: Survivors of a generation, and trials told before the next one begins.
        crossover: How often a child has two parents.
    """

    NEEDS: ClassVar = (Crossable,)

    population: int = 40
    crossover: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population < 2:
            raise InputError(f"a population of {self.population} cannot cross; give at least 2.")
        self.survivors: list[Trial] = []  # best first
        self.newborn: list[Trial] = []

    def learn(self, trial: Trial) -> None:
        self.newborn.append(trial)
        if len(self.newborn) == self.population:
            both = [*self.survivors, *self.newborn]
            self.survivors = self.ordered(both, enough=self.population)[: self.population]
            self.newborn = []

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        rng = self.rng(number)
        if not self.survivors:
            return self.drawn(number, pending)
        a, b = self._parent(rng), self._parent(rng)
        return self.born(
            CROSSING, (a, b), lambda looks: self._child(a, b, rng, looks), rng, pending
        )

    def _parent(self, rng: Random) -> Trial:
        """The better of two drawn survivors."""
        return self.survivors[min(rng.randrange(len(self.survivors)) for _ in range(2))]

    def _child(self, a: Trial, b: Trial, rng: Random, looks: Looks) -> Decisions:
        child: Decisions = a.decisions
        if rng.random() < self.crossover:
            child = self.space.cross(a.decisions, b.decisions, rng, looks)
        if child in (a.decisions, b.decisions) or rng.random() < 0.5:
            child = self.space.mutate(child, rng, looks=looks)
        return child
