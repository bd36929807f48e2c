"""Many short trials, the best of them made longer: a surrogate proposes, rungs promote.

New members are proposed by another strategy and tried briefly. Whenever a rung has ``eta`` times
as many finished trials as were promoted from it, the best of them that has not gone on is
continued, ``eta`` times as long, before anything new is begun (ASHA's rule, Li et al. 2020,
https://arxiv.org/abs/1810.05934).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from formwright.errors import InputError
from formwright.strategy.blackbox.base import Strategy, inner_strategy, strategy
from formwright.trial import Proposal, Trial


@strategy("staged")
@dataclass(kw_only=True, eq=False)
class Staged(Strategy):
    """Another strategy proposes short trials; one in so many goes on, by its value alone.

    Args:
        eta: One in so many trials goes on from each rung.
        rungs: Fidelities in all.
        steps: Of training on the first rung; None leaves them to the estimator.
        train_seconds: The same in seconds of training.
        inner: The strategy that proposes what is new; it learns from the first rung only, where
            all trials are alike.
        options: Of the inner strategy.
    """

    eta: int = 3
    rungs: int = 2
    steps: int | None = None
    train_seconds: float | None = None
    inner: str = "surrogate"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta < 2 or self.rungs < 1 or self.inner == self.NAME:
            raise InputError(
                f"eta={self.eta}, rungs={self.rungs}, inner={self.inner!r} make no stages; give "
                "eta of at least 2, at least one rung, and another strategy inside."
            )
        self.proposer = inner_strategy(self, self.inner, self.options)
        self.promoted_from: set[int] = set()

    def tell(self, trial: Trial) -> None:
        super().tell(trial)
        if trial.continues is not None:
            self.promoted_from.add(trial.continues)
        if trial.rung == 0:
            self.proposer.tell(trial)

    def fidelity(self) -> dict[str, Any]:
        return {"steps": self.steps, "train_seconds": self.train_seconds}

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        gone_on = self.promoted_from | {t.continues for t in pending if t.continues is not None}
        for rung in reversed(range(self.rungs - 1)):
            best = self._promotable(rung, gone_on)
            if best is not None:
                return self.promoted(best, self.eta)
        found = self.proposer.ask(number, [trial for trial in pending if trial.rung == 0])
        return found and replace(found, **self.fidelity())

    def _promotable(self, rung: int, gone_on: set[int]) -> Trial | None:
        """The best of a rung that has not gone on, if it is one of the best in ``eta``."""
        here = [trial for trial in self.trials if trial.rung == rung]
        share = len(here) // self.eta
        if sum(trial.number in gone_on for trial in here) >= share:
            return None
        best = self.ordered(here, share)[:share]
        return next((trial for trial in best if trial.number not in gone_on), None)
