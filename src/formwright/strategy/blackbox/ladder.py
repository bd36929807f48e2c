"""Stages of training, climbed by what is going to be best at the end and not by what leads now.

New members are proposed by another strategy, which learns what each trial is expected to come to at
the end of the finals (``strategy.forecast``), at whatever stage it was seen. Whenever a stage has
``eta`` times as many trials as went on from it, the one with the best prospects goes on. Where the
stages that were seen disagree about the order of the same models (``strategy.belief``), more go on,
so that the budget shifts to longer training.

The hand-designed members to begin with are what a search must keep up with: what is expected to end
behind the best of them counts for less than all that keeps up, however cheap it is, since nobody
would take it. The budget goes to where something can be won.

Hand-designed members come first, then changes of the best so far and a few random members, until
there is enough to predict from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from formwright.errors import InputError
from formwright.space import Encodable
from formwright.strategy.belief import belief
from formwright.strategy.blackbox.base import Strategy, inner_strategy, strategy, violation_of
from formwright.strategy.forecast import CAPACITY, REACH, Foresight
from formwright.trial import SEED, Proposal, Trial, key_of, usable

_DRAWN = 0.25  # the share of random members before there is enough to predict from
_DOUBTED = 0.5  # a rank correlation between stages below which more trials go on
_PAIRS = 6  # models that such a doubt needs
_LESS = 1.5  # trials of which one goes on then
_BEHIND = "behind"  # the error that is expected, as a share of the best hand-designed member's


@strategy("ladder")
@dataclass(kw_only=True, eq=False)
class Ladder(Strategy):
    """The default where trials are trained: short trials, those with the best prospects longer.

    Args:
        stages: Training steps in all, stage by stage.
        target: Steps of the finals, which prospects are forecast for; the last stage if not given.
        eta: One in so many trials goes on from each stage.
        capacity: How much the number of parameters counts for prospects; 0 where data are few.
        seeds: Hand-designed members, to begin with and to keep up with.
        related: Give new members that have no parent the trial most like them, so that they can
            take over its weights.
        start: Trials before the inner strategy proposes.
        inner: The strategy that proposes what is new.
        options: Of the inner strategy.
    """

    stages: Sequence[int] = (60, 180)
    target: int | None = None
    eta: float = 3.0
    capacity: float = CAPACITY
    seeds: Sequence[Mapping[str, Any]] = ()
    related: bool = False
    start: int = 8
    inner: str = "surrogate"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        grows = all(a < b for a, b in zip((0, *self.stages), self.stages, strict=False))
        if self.eta < 1 or not self.stages or not grows or self.inner == self.NAME:
            raise InputError(
                f"stages={tuple(self.stages)}, eta={self.eta}, inner={self.inner!r} make no ladder;"
                " give numbers of steps that grow, eta of at least 1, and another strategy inside."
            )
        start = {"start": max(2, self.start)} if self.inner == "surrogate" else {}
        reach = {_BEHIND: REACH} if self.seeds else {}
        self.proposer = inner_strategy(self, self.inner, {**start, **self.options}, reach)
        self.foresight = Foresight(self.objectives[0], self.target, self.capacity)
        self.gone_on: set[int] = set()
        self._seed_keys = {key_of(decisions) for decisions in self.seeds}
        self.awaiting = set(self._seed_keys)  # seeds whose result is not yet known
        self.bars: dict[int, float] = {}  # steps to the error expected of the best seed so far
        self.untold: list[Trial] = []  # what the proposer hears once the seeds are known

    def tell(self, trial: Trial) -> None:
        super().tell(trial)
        if trial.continues is not None:
            self.gone_on.add(trial.continues)
        self._raise_bar(trial)
        self.untold.append(trial)
        self.awaiting.discard(trial.key)
        if not self.awaiting:
            for known in self.untold:
                self.proposer.tell(self.foreseen(known))
            self.untold = []

    def fidelity(self) -> dict[str, Any]:
        return {"steps": self.stages[0]}

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        gone_on = self.gone_on | {t.continues for t in pending if t.continues is not None}
        for rung in reversed(range(len(self.stages) - 1)):
            best = self._promotable(rung, gone_on)
            if best is not None:
                return replace(self.promoted(best), steps=self.stages[rung + 1])
        found = self._new(number, [trial for trial in pending if trial.rung == 0])
        if found and self.related and not found.parents:
            found = replace(found, parents=self._nearest(found))
        return found and replace(found, **self.fidelity())

    def _nearest(self, found: Proposal) -> tuple[int, ...]:
        """The trial that a proposal is most like; the one trained furthest of those level."""
        if not self.trials or not isinstance(self.space, Encodable):
            return ()
        space = self.space
        near = min(
            self.trials, key=lambda t: (space.distance(t.decisions, found.decisions), -t.rung)
        )
        return (near.number,)

    def foreseen(self, trial: Trial) -> Trial:
        """The trial as it is expected to be at the end of the finals, and how far behind."""
        quality = self.objectives[0]
        if not trial.done or quality.name not in trial.values:
            return trial
        values = {quality.name: self.foresight(trial), _BEHIND: self._behind(trial)}
        return replace(trial, values={**trial.values, **values})

    def _raise_bar(self, trial: Trial) -> None:
        """Remember what is expected of a hand-designed member that keeps the limits."""
        if trial.key not in self._seed_keys or usable(trial.values, self.objectives):
            return
        error = self.foresight.error(trial)
        if error is not None and violation_of(trial, self.limits) <= 0:
            steps = trial.steps or 0
            self.bars[steps] = min(error, self.bars.get(steps, error))

    def _behind(self, trial: Trial) -> float:
        """The error expected, as a share of that of the best seed trained as long."""
        error, steps = self.foresight.error(trial), trial.steps or 0
        near = max((known for known in self.bars if known <= steps), default=None)
        return 1.0 if error is None or near is None else error / self.bars[near]

    def _new(self, number: int, pending: Sequence[Trial]) -> Proposal | None:
        taken = self.known | {trial.key for trial in pending}
        for decisions in self.seeds:
            if key_of(decisions) not in taken:
                return Proposal(decisions=decisions, origin=SEED)
        if len(self.trials) >= self.start:
            return self.proposer.ask(number, pending)
        rng = self.rng(number)
        if not self.trials or rng.random() < _DRAWN:
            return self.drawn(number, pending)
        trials = [self.foreseen(trial) for trial in self.trials]
        parent = rng.choice(self.proposer.front_of(trials))
        return self.mutated(parent, rng, pending)

    def _promotable(self, rung: int, gone_on: set[int]) -> Trial | None:
        """The best of a stage that has not gone on, if it is one of the best in ``eta``."""
        here = [trial for trial in self.trials if trial.rung == rung]
        share = int(len(here) / self._selective(rung))
        if sum(trial.number in gone_on for trial in here) >= share:
            return None
        best = self.proposer.ordered([self.foreseen(trial) for trial in here], share)[:share]
        found = next((trial for trial in best if trial.number not in gone_on), None)
        return found and next(trial for trial in here if trial.number == found.number)

    def _selective(self, rung: int) -> float:
        """Of how many trials one goes on; of fewer where this stage was wrong about the next."""
        for seen in belief(self.trials, self.objectives[0]):
            if (seen.rung, seen.other) == (rung, rung + 1) and seen.pairs >= _PAIRS:
                return min(self.eta, _LESS) if seen.correlation < _DOUBTED else self.eta
        return self.eta
