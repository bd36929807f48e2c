"""Asynchronous successive halving: promote whatever is in the best third of its rung so far.

Paper: Li et al. 2018, https://arxiv.org/abs/1810.05934. Rung r trains ``eta**r`` times as long as
the first; a promoted trial carries on the training of the earlier one. Nobody waits for a rung to
fill, so it suits many workers.
Differs from the paper: with several objectives trials are ranked by front and room.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from formwright.errors import InputError
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Proposal, Trial


@strategy("asha")
@dataclass(kw_only=True, eq=False)
class Asha(Strategy):
    """Random members, trained longer the better they do.

    Args:
        eta: One in so many is promoted, and trained so many times longer.
        rungs: Fidelities; the last is ``eta ** (rungs - 1)`` times the first.
        steps: Of training on the first rung; None leaves them to the estimator.
        train_seconds: The same in seconds of training.
    """

    eta: int = 3
    rungs: int = 4
    steps: int | None = None
    train_seconds: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta < 2 or self.rungs < 1:
            raise InputError(
                f"eta={self.eta} must be at least 2 and rungs={self.rungs} at least 1."
            )
        self.finished: list[Trial] = []  # also the failed ones
        self.counted: set[int] = set()  # numbers of those that did not fail

    def tell(self, trial: Trial) -> None:
        self.finished.append(trial)
        super().tell(trial)

    def learn(self, trial: Trial) -> None:
        self.counted.add(trial.number)

    def fidelity(self) -> dict[str, Any]:
        return {"steps": self.steps, "train_seconds": self.train_seconds}

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        promoted = {trial.continues for trial in (*self.finished, *pending)}
        for trial in self.promising(pending):
            if trial.number not in promoted:
                return self.promoted(trial, self.eta)
        found = self.drawn(number, pending)
        return found and replace(found, **self.fidelity())

    def promising(self, pending: Sequence[Trial]) -> list[Trial]:
        """Those that deserve the next rung, whether they had it or not; highest rung first."""
        found: list[Trial] = []
        for rung in reversed(range(self.rungs - 1)):
            here = [trial for trial in self.finished if trial.rung == rung]
            found += self.best(here, len(here) // self.eta)
        return found

    def best(self, trials: list[Trial], count: int) -> list[Trial]:
        """The best of one rung; failed trials took part and are never among them."""
        counted = [trial for trial in trials if trial.number in self.counted]
        return self.ordered(counted, enough=count)[:count] if counted and count else []
