"""Hurdles: who is trained on after a stage, decided from what earlier members came to.

A hurdle is a pure decision: frozen, told of results, asked whether a member goes on. Nothing here
knows of trials or trains anything, so every rule can be tried on made-up numbers. Costs are values
with smaller better.

| class | paper | who goes on |
|---|---|---|
| Progressive | Evolved Transformer | who beats the mean of the members trained longest |
| Halving | Primer | who beats the median of all that came so far |
| Everyone | none | all, to the last stage: fixed training |
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Self

from formwright.errors import InputError


@dataclass(frozen=True)
class Hurdles(ABC):
    """A rule, and what it was told so far.

    Args:
        stages: How many trainings, each carrying on the one before, a member can have.
    """

    stages: int

    def __post_init__(self) -> None:
        if self.stages < 1:
            raise InputError(f"stages={self.stages} leave nothing to train; give at least one.")

    @abstractmethod
    def goes_on(self, stage: int, cost: float) -> bool:
        """Whether a member that came to ``cost`` after a stage has the next one too."""

    def bar(self, stage: int) -> float | None:
        """What must be beaten after a stage; None where nothing is there yet."""
        return None

    def saw(self, stage: int, cost: float) -> Self:
        """The rule once it knows what a member came to after a stage."""
        return self

    def after(self, ended: int, alive: Sequence[tuple[int, float]]) -> Self:
        """The rule once so many members have ended.

        Args:
            ended: Members whose evaluation is over, failed ones included.
            alive: Last stage and cost of each member of the population.
        """
        return self


@dataclass(frozen=True)
class Everyone(Hurdles):
    """No hurdle: every member has all stages."""

    def goes_on(self, stage: int, cost: float) -> bool:
        return stage + 1 < self.stages


@dataclass(frozen=True)
class Progressive(Hurdles):
    """Progressive Dynamic Hurdles: one more after every ``every`` members.

    Paper: So et al. 2019, https://arxiv.org/abs/1901.11117. A new hurdle is the mean of those
    members of the population that were trained longest so far, and only who beats it is trained
    longer still. There are ``stages - 1`` in the end.

    Args:
        every: Members between two hurdles.
        bars: The hurdles so far.
    """

    every: int = 20
    bars: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.every < 1:
            raise InputError(f"every={self.every} members make no hurdle; give at least one.")

    def goes_on(self, stage: int, cost: float) -> bool:
        return stage < len(self.bars) and cost < self.bars[stage]

    def bar(self, stage: int) -> float | None:
        return self.bars[stage] if stage < len(self.bars) else None

    def after(self, ended: int, alive: Sequence[tuple[int, float]]) -> Self:
        due = min(ended // self.every, self.stages - 1)
        if len(self.bars) >= due or not alive:
            return self
        longest = max(stage for stage, _ in alive)
        mean = fmean(cost for stage, cost in alive if stage == longest)
        return replace(self, bars=(*self.bars, mean))


@dataclass(frozen=True)
class Halving(Hurdles):
    """Primer's bands: half of those that come to a hurdle pass it.

    Paper: So et al. 2021, https://arxiv.org/abs/2109.08668. Each stage is twice as long as the one
    before, so with five of them a member takes 5 t on average in place of 31 t. The hurdle is the
    median of all earlier members after the same stage; the first member passes them all.

    Args:
        seen: Costs of the members so far, stage by stage.
    """

    seen: tuple[tuple[float, ...], ...] = ()

    def goes_on(self, stage: int, cost: float) -> bool:
        bar = self.bar(stage)
        return stage + 1 < self.stages and (bar is None or cost < bar)

    def bar(self, stage: int) -> float | None:
        earlier = self.seen[stage] if stage < len(self.seen) else ()
        return median(earlier) if earlier else None

    def saw(self, stage: int, cost: float) -> Self:
        rows = [*self.seen, *((),) * (stage + 1 - len(self.seen))]
        rows[stage] = (*rows[stage], cost)
        return replace(self, seen=tuple(rows))


def doubling(first: float, stages: int) -> tuple[float, ...]:
    """Ends of bands that double: t, 3t, 7t, 15t, 31t."""
    return tuple(first * (2 ** (stage + 1) - 1) for stage in range(stages))


def expected_cost(ends: Sequence[float], passing: float = 0.5) -> float:
    """What a member takes on average when a share passes each hurdle: 5 t of 31 t."""
    lengths = [end - before for before, end in zip((0.0, *ends), ends, strict=False)]
    return sum(length * passing**stage for stage, length in enumerate(lengths))
