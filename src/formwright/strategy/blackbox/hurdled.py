"""Evolution in which only promising members are trained on: a population, tournaments, hurdles.

Papers: the Evolved Transformer, So et al. 2019, https://arxiv.org/abs/1901.11117 (``progressive``),
and Primer, So et al. 2021, https://arxiv.org/abs/2109.08668 (``bands``).

A member is one or more trials: each carries on the training of the one before. After each of them
a hurdle (``strategy.hurdles``) says whether it goes on; when it does not, the member joins the
population with the last result it had, and another one leaves. The best of a random few is the
parent of the next child. Members that compute what an earlier one computes are not tried again,
where the space can tell.

What leads after a short time is often small and fast and flattens out later. So, where a target is
given, hurdles and tournaments compare what members are expected to come to (``strategy.forecast``).

Differs from the papers: a population begins with the seeds and single changes of them, not with
copies, since a copy would only repeat a measurement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any

from formwright.errors import InputError
from formwright.space import Comparable, Decisions, Looks
from formwright.strategy.blackbox.base import Strategy, strategy, violation_of
from formwright.strategy.forecast import CAPACITY, forecast
from formwright.strategy.hurdles import Everyone, Halving, Hurdles, Progressive
from formwright.trial import RANDOM, SEED, Proposal, Trial, key_of

_DRAWS = 20  # changes that may compute what is known already
_CHANGES = 4  # at most, from a seed to a member at random


@dataclass(kw_only=True, eq=False)
class Hurdled(Strategy):
    """What the two published searches share.

    Args:
        population: Members alive.
        tournament: Members compared to pick a parent, or who dies.
        stages: Steps of training in all, stage by stage; none leaves them to the estimator.
        seconds: Whether the stages are seconds of training and not steps.
        seeds: Members to begin with; the others are changes of them. At random when not given.
        rate: How likely each part of a child changes; one part when not given.
        most: Members in all; None for no end.
        target: Length of the finals, in the unit of the stages, that members are forecast for; None
            takes the last result of each.
        capacity: How much the number of parameters counts for what is expected.
        at_random: Every member but the seeds is a seed after a few changes, or drawn where there
            is none: random search with the same hurdles.
    """

    population: int = 100
    tournament: int = 10
    stages: Sequence[float] = ()
    seconds: bool = False
    seeds: Sequence[Mapping[str, Any]] = ()
    rate: float | None = None
    most: int | None = None
    target: float | None = None
    capacity: float = CAPACITY
    at_random: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        grows = all(a < b for a, b in pairwise((0, *self.stages)))
        if not 1 <= self.tournament <= self.population or not grows:
            raise InputError(
                f"population={self.population}, tournament={self.tournament}, stages="
                f"{tuple(self.stages)} make no search; give 1 <= tournament <= population and "
                "stages that grow."
            )
        self.members: tuple[Trial, ...] = ()  # the last trial of each that is alive
        self.ended = 0  # members whose evaluation is over
        self.due: dict[int, Trial] = {}  # trials that passed a hurdle, to be carried on
        self.functions: set[str] = set()  # what was tried, by what it computes
        self.hurdles = self.make_hurdles(max(1, len(self.stages)))

    def make_hurdles(self, stages: int) -> Hurdles:
        """The rule by which members go on."""
        return Everyone(stages)

    def dies(self, number: int) -> Trial:
        """Who leaves the population when the member of trial ``number`` has joined it."""
        return self.members[0]

    # --- told ---------------------------------------------------------------------------

    def tell(self, trial: Trial) -> None:
        before = len(self.trials)
        super().tell(trial)
        if trial.control:  # random search beside this one
            return
        counts = len(self.trials) > before
        first = self.due.pop(trial.continues, None) if trial.continues is not None else None
        if first is None and isinstance(self.space, Comparable):
            self.functions.add(self.space.fingerprint(trial.decisions))
        expected = self.foreseen(trial)
        if counts and self._passes(expected):
            self.due[trial.number] = expected
        else:
            self._settle(trial, expected if counts else first)

    def foreseen(self, trial: Trial) -> Trial:
        """A trial with the result that is expected of it in the finals; as it is without target."""
        quality, *_ = self.objectives
        if self.target is None or not trial.done or quality.name not in trial.values:
            return trial
        value = forecast(trial, quality, self.target, self.capacity)
        return replace(trial, values={**trial.values, quality.name: value})

    def _passes(self, trial: Trial) -> bool:
        """Whether it goes on; the rule learns of it in any case."""
        (cost, *_), rules = trial.costs(self.objectives), self.hurdles
        self.hurdles = rules.saw(trial.rung, cost)
        last = trial.rung + 1 >= rules.stages
        return not last and not violation_of(trial, self.limits) and rules.goes_on(trial.rung, cost)

    def _settle(self, trial: Trial, member: Trial | None) -> None:
        """A member's evaluation is over; it joins with the last result that counts."""
        self.ended += 1
        if member is not None:
            self.members = (*self.members, member)
            if len(self.members) > self.population:
                gone = self.dies(trial.number)
                self.members = tuple(m for m in self.members if m.number != gone.number)
        alive = [(m.rung, m.costs(self.objectives)[0]) for m in self.members]
        self.hurdles = self.hurdles.after(self.ended, alive)

    # --- asked --------------------------------------------------------------------------

    def fidelity(self) -> dict[str, Any]:
        return self._until(0)

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        carried = {trial.continues for trial in pending}
        for trial in self.due.values():
            if trial.number not in carried:
                return replace(self.promoted(trial), **self._until(trial.rung + 1))
        begun = self.ended + len(self.due) + sum(t.continues is None for t in pending)
        if self.most is not None and begun >= self.most:
            return None
        found = self._child(number, [trial for trial in pending if trial.rung == 0])
        return found and replace(found, **self.fidelity())

    def _until(self, stage: int) -> dict[str, Any]:
        """How far a stage is trained, as fields of a proposal."""
        if not self.stages:
            return {}
        end = self.stages[stage]
        return {"train_seconds": float(end)} if self.seconds else {"steps": int(end)}

    def _child(self, number: int, pending: Sequence[Trial]) -> Proposal | None:
        taken = self.known | {trial.key for trial in pending}
        for decisions in self.seeds:
            if key_of(decisions) not in taken:
                return Proposal(decisions=decisions, origin=SEED)
        rng = self.rng(number)
        planted = {key_of(decisions) for decisions in self.seeds}
        rooted = [m for m in self.members if m.key in planted]  # however far they were trained
        young = len(self.members) < self.population
        if self.at_random and self.seeds:
            return self._strolled(rng, pending)
        if self.at_random or not self.members or (young and not self.seeds):
            return self.drawn(number, pending)
        if young and rooted:
            return self.mutated(rng.choice(rooted), rng, pending, self.rate)
        rivals = rng.sample(self.members, min(self.tournament, len(self.members)))
        return self.mutated(self.ordered(rivals, enough=1)[0], rng, pending, self.rate)

    def _strolled(self, rng: Random, pending: Sequence[Trial]) -> Proposal | None:
        """A seed after a few changes, whatever became of others."""

        def stroll(looks: Looks) -> Decisions:
            found: Decisions = rng.choice(list(self.seeds))
            for _ in range(rng.randint(1, _CHANGES)):
                found = self.space.mutate(found, rng, self.rate, looks)
            return found

        drawn = self.fresh(stroll, rng, pending)
        return None if drawn is None else Proposal(decisions=drawn, origin=RANDOM)

    def fresh(self, draw: Any, rng: Any, pending: Sequence[Trial] = ()) -> Decisions | None:
        return super().fresh(self._unlike(draw, pending), rng, pending)

    def _unlike(self, draw: Any, pending: Sequence[Trial]) -> Any:
        """Draws until something computes what nothing before it computes."""
        space = self.space
        if not isinstance(space, Comparable):
            return draw
        known = self.functions | {space.fingerprint(trial.decisions) for trial in pending}

        def drawn(looks: Looks) -> Decisions:
            for _ in range(_DRAWS):
                found: Decisions = draw(looks)
                if space.fingerprint(found) not in known:
                    break
            return found

        return drawn


@strategy("progressive")
@dataclass(kw_only=True, eq=False)
class ProgressiveEvolution(Hurdled):
    """Tournaments without ageing, with a new hurdle after every so many members.

    Args:
        every: Members between two hurdles.
    """

    tournament: int = 30
    every: int = 5000

    def make_hurdles(self, stages: int) -> Hurdles:
        return Progressive(stages, every=self.every)

    def dies(self, number: int) -> Trial:
        rng = self.rng(number, "death")
        return self.ordered(rng.sample(self.members, self.tournament))[-1]


@strategy("bands")
@dataclass(kw_only=True, eq=False)
class BandedEvolution(Hurdled):
    """Regularised evolution, the oldest dies; half of those at a hurdle pass it.

    Args:
        hurdles_off: Train every member to the last stage, to see what hurdles save.
    """

    hurdles_off: bool = False

    def make_hurdles(self, stages: int) -> Hurdles:
        return Everyone(stages) if self.hurdles_off else Halving(stages)
