"""The contract of a black-box strategy: asked for a proposal, told of results.

A strategy keeps no random state and does no I/O. Its draws for trial ``n`` come from
``(seed, n)``, so telling a fresh instance the stored trials continues the same search.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from itertools import islice
from random import Random
from typing import Any, ClassVar, TypeVar

import numpy as np

from formwright.errors import InputError
from formwright.registry import Registry
from formwright.space import Countable, Decisions, Enumerable, Looks, Space, Unsatisfied
from formwright.strategy.pareto import Array, order_by_rank, pareto_mask
from formwright.trial import (
    MUTATION,
    PROMOTED,
    RANDOM,
    Key,
    Objective,
    Pending,
    Proposal,
    Trial,
    key_of,
    usable,
)

_TRIES = 30  # draws that may repeat something known before another way is taken
_SAMPLED = 400  # looks at constraints for the samples that come last
_LISTED = 10_000  # spaces up to this size are listed to find what is left

StrategyType = TypeVar("StrategyType", bound="Strategy")


@dataclass(kw_only=True, eq=False)
class Strategy(ABC):
    """Proposes members of a space and learns from what became of them.

    Its options are its fields, each with a default.

    Args:
        space: Where proposals come from.
        objectives: What counts, and in which direction.
        seed: The same seed and the same history give the same proposals.
        limits: Name of a measured value to the most it may be. Trials above a limit count for
            less than all that keep it, and for less the further above they are.
    """

    NAME: ClassVar[str]
    NEEDS: ClassVar[tuple[type[Space], ...]] = ()  # what its space must be able to do

    space: Any  # a Space that is all of NEEDS
    objectives: Sequence[Objective]
    seed: int = 0
    limits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.objectives:
            raise InputError("A search needs at least one objective.")
        _check_space(self.NAME, self.NEEDS, self.space)
        self.objectives, self.limits = tuple(self.objectives), dict(self.limits)
        self.trials: list[Trial] = []  # those that count: done, with finite values
        self.known: set[Key] = set()  # decisions of every finished trial, failed ones too
        self._tried: list[Decisions] = []  # the same in order
        self._costs: list[tuple[float, ...]] = []
        self._violation: list[float] = []

    @abstractmethod
    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        """Propose trial ``number``; None ends the search.

        Args:
            number: Its number. All draws follow from it and from the seed.
            pending: Trials already proposed whose result is not yet told.
        """

    def tell(self, trial: Trial) -> None:
        """Learn from one finished trial. Trials are told in the order of their numbers.

        Failed trials, and values that are not finite, are remembered as not worth repeating.
        """
        self.known.add(trial.key)
        self._tried.append(trial.decisions)
        if trial.done and not usable(trial.values, self.objectives):
            violation = violation_of(trial, self.limits)
            self.trials.append(trial)
            self._costs.append(trial.costs(self.objectives))
            self._violation.append(violation)
            self.learn(trial)

    def learn(self, trial: Trial) -> None:  # noqa: B027  # most need no more than the lists
        """Called by ``tell`` for every trial that counts, once it is in ``trials``."""

    def tell_all(self, trials: Sequence[Trial]) -> None:
        """Learn from many at once; strategies that can do so faster, do."""
        for trial in trials:
            self.tell(trial)

    def rng(self, number: int, purpose: str = "") -> Random:
        """The source of every draw for one trial."""
        return Random(f"{self.seed}/{number}/{purpose}" if purpose else f"{self.seed}/{number}")

    @property
    def costs(self) -> Array:
        """One row per trial that counts, one column per objective, smaller is better."""
        return np.array(self._costs, dtype=float).reshape(-1, len(self.objectives))

    @property
    def violation(self) -> Array:
        """How far each trial that counts is above the limits; 0 when it keeps them."""
        return np.array(self._violation, dtype=float)

    def ordered(self, trials: Sequence[Trial], enough: int | None = None) -> list[Trial]:
        """Trials that count from best to worst: limits, then front, then room."""
        costs = np.array([t.costs(self.objectives) for t in trials], dtype=float)
        violation = np.array([violation_of(t, self.limits) for t in trials])
        order = order_by_rank(costs.reshape(len(trials), -1), violation, enough)
        return [trials[i] for i in order]

    def front_of(self, trials: Sequence[Trial]) -> list[Trial]:
        """Those that keep the limits and that no other dominates; else the one closest to them."""
        allowed = [trial for trial in trials if violation_of(trial, self.limits) <= 0]
        if not allowed:
            return self.ordered(trials)[:1]
        mask = pareto_mask(np.array([trial.costs(self.objectives) for trial in allowed]))
        return [trial for trial, good in zip(allowed, mask, strict=True) if good]

    # --- proposals ----------------------------------------------------------------------

    def fidelity(self) -> dict[str, Any]:
        """How far what is new is trained, as fields of a proposal; the estimator's own if empty."""
        return {}

    def drawn(self, number: int, pending: Sequence[Trial]) -> Proposal | None:
        """A new member at random; None where nothing is left."""
        rng = self.rng(number)
        found = self.fresh(lambda looks: self.sample(rng, looks, pending), rng, pending)
        return None if found is None else Proposal(decisions=found, origin=RANDOM)

    def mutated(
        self, parent: Trial, rng: Random, pending: Sequence[Trial], rate: float | None = None
    ) -> Proposal | None:
        """A new member close to a parent; None where nothing is left."""
        return self.born(
            MUTATION,
            (parent,),
            lambda looks: self.space.mutate(parent.decisions, rng, rate, looks),
            rng,
            pending,
        )

    def born(
        self,
        origin: str,
        parents: Sequence[Trial],
        draw: Callable[[Looks], Decisions],
        rng: Random,
        pending: Sequence[Trial],
    ) -> Proposal | None:
        """A new member that has parents; None where nothing is left."""
        found = self.fresh(draw, rng, pending)
        if found is None:
            return None
        return Proposal(
            decisions=found,
            origin=origin,
            parents=tuple(parent.number for parent in parents),
            note=self.space.explain(parents[0].decisions, found),
        )

    def promoted(self, trial: Trial, eta: int = 1) -> Proposal:
        """The same member again on the next rung, its training carried on ``eta`` times as long."""
        return Proposal(
            decisions=trial.decisions,
            origin=PROMOTED,
            parents=(trial.number,),
            rung=trial.rung + 1,
            steps=None if trial.steps is None else trial.steps * eta,
            train_seconds=None if trial.train_seconds is None else trial.train_seconds * eta,
            continues=trial.number,
        )

    def sample(
        self, rng: Random, looks: Looks | None = None, pending: Sequence[Trial] = ()
    ) -> Decisions:
        """A member at random; where none can be found any more, one that was tried."""
        try:
            return self.space.sample(rng, looks)
        except Unsatisfied:
            tried = self._tried or [trial.decisions for trial in pending]
            if not tried:
                raise
            return rng.choice(tried)

    def fresh(
        self, draw: Callable[[Looks], Decisions], rng: Random, pending: Sequence[Trial] = ()
    ) -> Decisions | None:
        """Something not yet tried: a draw if possible, else a sample, else what is left.

        Args:
            draw: Draws one member, within the looks at constraints that it is handed.
            rng: The source of every draw.
            pending: Trials already proposed whose result is not yet told.

        Returns:
            A repeat where nothing new turns up in a large space; None where nothing is left.
        """
        taken = pending if isinstance(pending, Pending) else Pending(pending)
        sample = partial(self.sample, rng, pending=pending)
        for source, looks in ((draw, Looks()), (sample, Looks(_SAMPLED))):
            for _ in range(_TRIES):
                found = source(looks)
                if (key := key_of(found)) not in self.known and not taken.tries(key):
                    return found
        if not _listable(self.space):
            return found
        left = [
            m
            for m in self._members
            if (key := key_of(m)) not in self.known and not taken.tries(key)
        ]
        return rng.choice(left) if left else None

    @cached_property
    def _members(self) -> list[Decisions]:
        """All of a small space; to look at the constraints of each takes time."""
        return list(islice(self.space.members(), _LISTED))


def violation_of(trial: Trial, limits: Mapping[str, float]) -> float:
    """How far a trial is above all limits together, each as a share of itself."""
    total = 0.0
    for name, most in limits.items():
        if name not in trial.values:
            raise InputError(
                f"{name!r} is limited to {most:g}, but trial {trial.number} has no such value, "
                f"only: {', '.join(sorted(trial.values))}. Measure it, or lift the limit."
            )
        over = trial.interval(name)[1] - most
        if not over <= 0:  # also when it is not a number
            total += over / (abs(most) or 1.0) if np.isfinite(over) else float("inf")
    return total


def strategy(name: str) -> Callable[[type[StrategyType]], type[StrategyType]]:
    """Make a strategy known under ``name``."""

    def register(cls: type[StrategyType]) -> type[StrategyType]:
        STRATEGIES.add(name, cls)
        cls.NAME = name
        return cls

    return register


class _Strategies(Registry[type[Strategy]]):
    def announce(self, name: str, thing: Any) -> None:
        if not (isinstance(thing, type) and issubclass(thing, Strategy)):
            raise InputError(f"{thing!r} is no class of strategies.")
        if not hasattr(thing, "NAME"):
            strategy(name)(thing)


STRATEGIES = _Strategies("strategy", "formwright.strategies", "formwright.strategy.blackbox")


def strategy_names() -> list[str]:
    """Every strategy, sorted."""
    return sorted(STRATEGIES)


def make_strategy(
    name: str, space: Space, objectives: Sequence[Objective], seed: int = 0, /, **options: Any
) -> Strategy:
    """The strategy called ``name``.

    What is no option of a strategy that has others inside, or a sampler, is an option of those.
    """
    cls = STRATEGIES.get(name)
    own = {field.name for field in fields(cls)}
    if "options" in own:
        inner = {key: options.pop(key) for key in [*options] if key not in own}
        options["options"] = {**options.get("options", {}), **inner}
    try:
        return cls(space=space, objectives=objectives, seed=seed, **options)
    except TypeError as error:
        raise InputError(f"Strategy {name!r}: {error}.") from None


def inner_strategy(
    outer: Strategy, name: str, options: Mapping[str, Any], limits: Mapping[str, float] = {}
) -> Strategy:
    """The strategy inside another one, on the same space and for the same objectives.

    Args:
        outer: The strategy around it, whose limits it keeps.
        name: What it is called.
        options: Of its own.
        limits: More limits, on values that it is told.
    """
    kept = {**outer.limits, **limits}
    more = {**options, **({"limits": kept} if kept else {})}
    return make_strategy(name, outer.space, outer.objectives, outer.seed, **more)


def strategies_for(space: Space) -> list[str]:
    """Strategies that can search a space, sorted."""
    return sorted(
        name
        for name, cls in STRATEGIES.items()
        if all(isinstance(space, need) for need in cls.NEEDS)
    )


def _check_space(name: str, needs: Sequence[type[Space]], space: Any) -> None:
    missing = [need.__name__ for need in needs if not isinstance(space, need)]
    if missing:
        able = ", ".join(known for known in strategies_for(space) if known != name)
        raise InputError(
            f"The strategy {name!r} needs a space that is {' and '.join(missing)}, which "
            f"{space.name!r} ({type(space).__name__}) is not; use {able}."
        )


def _listable(space: Space) -> bool:
    """Whether all members can be looked through."""
    return (
        isinstance(space, Countable) and isinstance(space, Enumerable) and space.size() <= _LISTED
    )
