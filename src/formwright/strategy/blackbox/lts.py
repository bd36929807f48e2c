"""Pareto evolution of LiteTransformerSearch: parents are drawn from the front of all that was seen.

Paper: Javaheripi et al. 2022, https://arxiv.org/abs/2203.02094. Each generation has parents from
the front, those used least often first, half of the children are mutants and half have two parents.
``hull`` keeps the lower convex hull in place of the front, as the paper's text describes it.
Differs from the paper: children come one by one, so a generation ends when its trials are told.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import ClassVar

import numpy as np

from formwright.errors import InputError
from formwright.space import Crossable
from formwright.strategy.blackbox.base import Strategy, strategy, violation_of
from formwright.strategy.pareto import lower_hull
from formwright.trial import CROSSING, Proposal, Trial


@strategy("lts")
@dataclass(kw_only=True, eq=False)
class LiteTransformerSearch(Strategy):
    """Evolution around the front.

    Args:
        start: Random trials before the first generation.
        parents: Members of the front drawn for each generation.
        children: Trials of a generation; the first half are mutants.
        hull: Whether to keep the lower convex hull in place of the front; for two objectives.
    """

    NEEDS: ClassVar = (Crossable,)
    RATE: ClassVar = 0.3  # each decision of a mutant is drawn anew with this probability

    start: int = 100
    parents: int = 20
    children: int = 80
    hull: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start < 1 or self.parents < 2 or self.children < 2:
            raise InputError(
                f"start={self.start}, parents={self.parents}, children={self.children} is too few; "
                "give at least 1, 2 and 2."
            )
        if self.hull and len(self.objectives) != 2:
            raise InputError(f"hull is for two objectives, not {len(self.objectives)}.")
        self.front: list[Trial] = []
        self.working: list[Trial] = []  # the parents of this generation
        self.newborn: list[Trial] = []
        self.used: Counter[int] = Counter()  # times a trial was in a working population

    def learn(self, trial: Trial) -> None:
        self.newborn.append(trial)
        if len(self.newborn) < (self.children if self.working else self.start):
            return
        self.front = self._front([*self.front, *self.newborn])
        self.used.update(member.number for member in self.newborn)
        self.newborn = []
        times = np.array([self.used[member.number] for member in self.front], dtype=float)
        weights = 1.0 / (1.0 + (times - times.min()) / max(1.0, float(np.ptp(times))))
        rng = self.rng(trial.number, "parents")
        self.working = rng.choices(self.front, [float(w) for w in weights], k=self.parents)
        self.used.update(member.number for member in self.working)

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        rng = self.rng(number)
        if not self.working:
            return self.drawn(number, pending)
        a, b = rng.choice(self.working), rng.choice(self.working)
        place = (len(self.newborn) + len(pending)) % self.children
        if place < self.children // 2 or a.number == b.number:
            return self.mutated(a, rng, pending, self.RATE)
        return self.born(
            CROSSING,
            (a, b),
            lambda looks: self.space.cross(a.decisions, b.decisions, rng, looks),
            rng,
            pending,
        )

    def _front(self, trials: list[Trial]) -> list[Trial]:
        """Those that no other beats in every objective, or the corners of the hull."""
        kept = [trial for trial in trials if violation_of(trial, self.limits) <= 0]
        kept = kept or self.front_of(trials)
        costs = np.array([trial.costs(self.objectives) for trial in kept])
        if self.hull:
            mask = lower_hull(costs)
        else:
            beats = reduce(and_, (np.less.outer(column, column) for column in costs.T))
            mask = ~beats.any(axis=0)
        return [trial for trial, good in zip(kept, mask, strict=True) if good]
