"""Search on a cheap predictor of what was seen; measure what it finds most promising.

The first trials are corners of the space: the smallest member, the largest, and the ends in random
directions. They tell more about what each decision does than random members, most of which are
alike, and they often are the ends of the front. From then on, every few trials a ridge regression
is fitted in closed form and an evolution of a few hundred members runs on its predictions alone.
Each proposal takes one function from the predictor's posterior (Thompson sampling) and picks the
member of that pool which adds most hypervolume. That costs milliseconds, and needs far fewer trials
than an evolution that must try every child. The longer no trial joins the front, the wider the
draws: where the predictor is wrong, what it thinks best is what is known already.

Papers: Thompson sampling for several objectives, Bradford et al. 2018,
https://doi.org/10.1007/s10898-018-0609-2; predictors inside an evolution, Lu et al. 2020,
https://arxiv.org/abs/2007.10396
Differs from the papers: Bayesian ridge regression in place of Gaussian processes and networks, and
corners in place of a random beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import le
from random import Random
from typing import ClassVar

import numpy as np

from formwright.errors import InputError
from formwright.space import Crossable, Decisions, Encodable, Looks
from formwright.statistics import Ridge
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.strategy.features import Features, LogScale
from formwright.strategy.pareto import Array, expected_gains, order_by_rank
from formwright.trial import CORNER, PREDICTED, Key, Proposal, Trial, key_of

_PARENTS = 20  # fewer lose the breadth of the front, more dilute it
_GROWTH, _LONGEST = 0.025, 16  # fits become rarer as a single trial matters less
_GENERATIONS = 6
_RESTLESS, _BOLDEST = 10, 3.0  # idle trials that make draws twice as wide, and the most they widen
_CLIMB = 3, 300  # steps towards a corner: so many per column, and at most
_SLIPS = 2  # changes that break constraints, for each of those steps
_LOOKS = 200, 48  # at constraints, for the children of a generation and for each sample in it


class Pool:
    """What one fit found promising, and the predictor that says so."""

    def __init__(self, known: set[Key], model: Ridge, scale: LogScale) -> None:
        self.known, self.model, self.scale = known, model, scale
        self.members: dict[Key, Decisions] = {}
        self.projected = np.zeros((0, len(model.basis)))  # one row per member

    def sample(self, rng: np.random.Generator, boldness: float) -> Array:
        """Values of all members under one function drawn from the posterior."""
        return self.scale.undo(self.model.sample(self.projected, rng, boldness))


@strategy("surrogate")
@dataclass(kw_only=True, eq=False)
class Surrogate(Strategy):
    """The default where nothing is trained: a model of what was tried proposes.

    Args:
        start: Corners tried before the first fit. Where some fail, random trials take over.
        period: Trials between two fits, at first.
        candidates: Members scored per fit.
        boldness: Width of the draws from the posterior, at first; 0 trusts the predictor.
    """

    NEEDS: ClassVar = (Encodable, Crossable)

    start: int = 8
    period: int = 2
    candidates: int = 240
    boldness: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start < 2 or self.period < 1 or self.candidates < _GENERATIONS:
            raise InputError(
                f"start={self.start}, period={self.period}, candidates={self.candidates} leave "
                f"nothing to learn from; give at least 2, 1 and {_GENERATIONS}."
            )
        names = [objective.name for objective in self.objectives]
        self.names = [*names, *(name for name in self.limits if name not in names)]
        self.features = Features(self.space.columns())
        self._keys: list[Key] = []
        self._rows: list[Array] = []  # encodings
        self._values: list[list[float]] = []  # what is predicted, in the order of names
        self._front: list[tuple[float, ...]] = []  # violation and costs of the best so far
        self._idle: list[int] = []  # trials since the last that joined the front, at each trial
        self._pools: dict[int, Pool] = {}  # the last one, by how many trials it has seen

    def learn(self, trial: Trial) -> None:
        self._keys.append(trial.key)
        self._rows.append(self.space.encode(trial.decisions))
        self._values.append([trial.values[name] for name in self.names])
        self._idle.append(0 if self._joins_front() else self._idle[-1] + 1)

    def _joins_front(self) -> bool:
        """Whether the last trial is better in something than each before it; counts it then."""
        new = (max(0.0, self._violation[-1]), *self._costs[-1])
        if any(_as_good(old, new) for old in self._front):
            return False
        self._front = [old for old in self._front if not _as_good(new, old)] + [new]
        return True

    def _bold(self, told: int) -> float:
        """Boldness after so many trials."""
        return self.boldness * min(_BOLDEST, 1 + self._idle[told - 1] / _RESTLESS)

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        rng = self.rng(number)
        taken = self.known | {trial.key for trial in pending}
        if len(self.trials) >= self.start:
            pool = self._current_pool()
            new = [i for i, key in enumerate(pool.members) if key not in taken]
            if new:
                best = new[self._best(pool, new, rng, pending)]
                return Proposal(decisions=list(pool.members.values())[best], origin=PREDICTED)
        elif number < self.start:
            corner = self._corner(number, rng, pending)
            if key_of(corner) not in taken:
                return Proposal(decisions=corner, origin=CORNER)
        return self.drawn(number, pending)

    def _corner(self, number: int, rng: Random, pending: Sequence[Trial]) -> Decisions:
        """A member far out: all totals low for the first trial, all high for the second."""
        totals = self.features.totals  # (columns, totals)
        signs = [number * 2 - 1.0 if number < 2 else rng.choice((-1.0, 1.0)) for _ in totals.T]
        direction = totals @ np.array(signs)
        found = self.sample(rng, pending=pending)
        reached = float(self.space.encode(found) @ direction)
        steps = min(_CLIMB[0] * len(totals), _CLIMB[1])
        slips = _SLIPS * steps
        while steps > 0 and slips > 0:
            child = self.space.change(found, rng)
            if self.space.violation(child) > 0:
                slips -= 1
                continue
            steps -= 1
            if (further := float(self.space.encode(child) @ direction)) > reached:
                found, reached = child, further
        return found

    def _best(self, pool: Pool, new: list[int], rng: Random, pending: Sequence[Trial]) -> int:
        """Which of the new members adds most, if those still pending come out as predicted."""
        drawn = np.random.default_rng(rng.getrandbits(64))
        costs, violation = self._judged(pool.sample(drawn, self._bold(len(self.trials)))[new])
        seen = self.costs[self.violation <= 0]
        if pending:
            encoded = np.stack([self.space.encode(trial.decisions) for trial in pending])
            projected = pool.model.project(self.features(encoded))
            soon, over = self._judged(pool.scale.undo(pool.model.mean(projected)))
            seen = np.concatenate([seen, soon[over <= 0]])
        scores = expected_gains(seen, costs, drawn)
        if violation.any():  # whatever keeps the limits comes before whatever does not
            scores = np.where(violation > 0, scores.min() - violation, scores)
        return int(scores.argmax())

    def _judged(self, values: Array) -> tuple[Array, Array]:
        """Costs and violation of predicted values."""
        signs = np.array([objective.sign for objective in self.objectives])
        violation = np.zeros(len(values))
        for name, most in self.limits.items():
            over = values[:, self.names.index(name)] - most
            violation += np.maximum(0.0, over) / (abs(most) or 1.0)
        return values[:, : len(signs)] * signs, violation

    def _current_pool(self) -> Pool:
        """The pool of the last fit that was due. It follows from the trials told before it."""
        told = self.start
        while (due := told + min(max(self.period, int(told * _GROWTH)), _LONGEST)) <= len(
            self.trials
        ):
            told = due
        if told not in self._pools:
            self._pools = {told: self._evolved(told)}
        return self._pools[told]

    def _evolved(self, told: int) -> Pool:
        """Evolution on the predictions of a model fitted to the first trials."""
        rng = self.rng(told, "pool")
        drawn = np.random.default_rng(rng.getrandbits(64))
        values = np.array(self._values[:told])
        scale = LogScale(values)
        inputs = self.features(np.stack(self._rows[:told]))
        model = Ridge(inputs, scale.do(values), self.features.beliefs)
        pool = Pool(set(self._keys[:told]), model, scale)  # later trials must not change it
        costs, violation = self.costs[:told], self.violation[:told]
        best = order_by_rank(costs, violation, _PARENTS)[:_PARENTS]
        elders: list[Decisions] = [self.trials[i].decisions for i in best]
        parents = elders
        for _ in range(_GENERATIONS):
            self._breed(pool, parents, rng)
            if not pool.members:
                break
            guessed, over = self._judged(pool.sample(drawn, self._bold(told)))
            everyone = [*elders, *pool.members.values()]
            both = np.concatenate([costs[best], guessed]), np.concatenate([violation[best], over])
            parents = [everyone[i] for i in order_by_rank(*both, _PARENTS)[:_PARENTS]]
        return pool

    def _breed(self, pool: Pool, parents: list[Decisions], rng: Random) -> None:
        """Add a generation of members that are new."""
        born: list[Decisions] = []
        looks = Looks(_LOOKS[0])
        for _ in range(self.candidates // _GENERATIONS):
            child = self._child(parents, rng, looks)
            key = key_of(child)
            if key not in pool.members and key not in pool.known:
                pool.members[key] = child
                born.append(child)
        if born:
            encoded = np.stack([self.space.encode(child) for child in born])
            rows = pool.model.project(self.features(encoded))
            pool.projected = np.concatenate([pool.projected, rows])

    def _child(self, parents: list[Decisions], rng: Random, looks: Looks) -> Decisions:
        way = rng.random()
        if way < 0.1:  # fresh blood, for where the predictor is wrong
            return self.sample(rng, Looks(_LOOKS[1]))
        parent = rng.choice(parents)
        if way < 0.55:
            return self.space.mutate(parent, rng, looks=looks)
        child = self.space.cross(parent, rng.choice(parents), rng, looks)
        return child if way < 0.8 else self.space.mutate(child, rng, looks=looks)


def _as_good(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Whether violation and costs ``a`` are nowhere worse; any violation counts alone."""
    if a[0] or b[0]:
        return a[0] <= b[0]
    return all(map(le, a, b))
