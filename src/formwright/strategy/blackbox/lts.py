"""Pareto evolution of LiteTransformerSearch: parents are drawn from the front of all that was seen.

Paper: Javaheripi et al. 2022, https://arxiv.org/abs/2203.02094. Each generation has parents from
the front, those used least often first, half of the children are mutants and half have two parents.
``hull`` keeps the lower convex hull in place of the front, as the paper's text describes it.
Differs from the paper: children come one by one, so a generation ends when its trials are told.
"""

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import Any

import numpy as np

from formwright.errors import InputError
from formwright.space import Space
from formwright.strategy.blackbox.base import Strategy, excess_of, strategy
from formwright.strategy.pareto import lower_hull
from formwright.trial import Objective, Proposal, Trial


@strategy("lts")
class LiteTransformerSearch(Strategy):
    """Evolution around the front.

    Args:
        space: Where proposals come from.
        objectives: What counts.
        seed: The same seed and the same history give the same proposals.
        start: Random trials before the first generation.
        parents: Members of the front drawn for each generation.
        children: Trials of a generation; the first half are mutants.
        hull: Whether to keep the lower convex hull in place of the front; for two objectives.
        options: ``limits``.
    """

    RATE = 0.3  # each decision of a mutant is drawn anew with this probability

    def __init__(
        self,
        space: Space,
        objectives: Sequence[Objective],
        seed: int = 0,
        start: int = 100,
        parents: int = 20,
        children: int = 80,
        hull: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(space, objectives, seed, **options)
        if start < 1 or parents < 2 or children < 2:
            raise InputError(
                f"start={start}, parents={parents}, children={children} is too few; give at least "
                "1, 2 and 2."
            )
        if hull and len(self.objectives) != 2:
            raise InputError(f"hull is for two objectives, not {len(self.objectives)}.")
        self.start, self.size, self.children, self.hull = start, parents, children, hull
        self.front: list[Trial] = []
        self.parents: list[Trial] = []
        self.newborn: list[Trial] = []
        self.used: Counter[int] = Counter()  # times a trial was in a working population

    def learn(self, trial: Trial) -> None:
        self.newborn.append(trial)
        if len(self.newborn) < (self.children if self.parents else self.start):
            return
        self.front = self._front([*self.front, *self.newborn])
        self.used.update(member.number for member in self.newborn)
        self.newborn = []
        times = np.array([self.used[member.number] for member in self.front], dtype=float)
        weights = 1.0 / (1.0 + (times - times.min()) / max(1.0, float(np.ptp(times))))
        rng = self.rng(trial.number, "parents")
        self.parents = rng.choices(self.front, [float(w) for w in weights], k=self.size)
        self.used.update(member.number for member in self.parents)

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        rng = self.rng(number)
        if not self.parents:
            found = self.fresh(lambda looks: self.sample(rng, looks, pending), rng, pending)
            return None if found is None else Proposal(found, note="sample")
        a, b = rng.choice(self.parents), rng.choice(self.parents)
        place = (len(self.newborn) + len(pending)) % self.children
        if place < self.children // 2 or a.number == b.number:
            found = self.fresh(
                lambda looks: self.space.mutate(a.decisions, rng, self.RATE, looks), rng, pending
            )
            return None if found is None else Proposal(found, (a.number,), note="mutant")
        found = self.fresh(
            lambda looks: self.space.cross(a.decisions, b.decisions, rng, looks), rng, pending
        )
        return None if found is None else Proposal(found, (a.number, b.number), note="child")

    def _front(self, trials: list[Trial]) -> list[Trial]:
        """Those that no other beats in every objective, or the corners of the hull."""
        kept = [trial for trial in trials if excess_of(trial, self.limits) <= 0]
        kept = kept or self.front_of(trials)
        costs = np.array([trial.costs(self.objectives) for trial in kept])
        if self.hull:
            mask = lower_hull(costs)
        else:
            beats = reduce(and_, (np.less.outer(column, column) for column in costs.T))
            mask = ~beats.any(axis=0)
        return [trial for trial, good in zip(kept, mask, strict=True) if good]
