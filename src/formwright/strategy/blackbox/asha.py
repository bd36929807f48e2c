"""Asynchronous successive halving: promote whatever is in the best third of its rung so far.

Paper: Li et al. 2018, https://arxiv.org/abs/1810.05934. Rung r trains ``eta**r`` times as long as
the first; a promoted trial carries on the training of the earlier one. Nobody waits for a rung to
fill, so it suits many workers.
Differs from the paper: with several objectives trials are ranked by front and room.
"""

from collections.abc import Sequence
from typing import Any

from formwright.errors import InputError
from formwright.space import Space
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Objective, Proposal, Trial


@strategy("asha")
class Asha(Strategy):
    """Random members, trained longer the better they do.

    Args:
        space: Where proposals come from.
        objectives: What counts.
        seed: The same seed and the same history give the same proposals.
        eta: One in so many is promoted, and trained so many times longer.
        rungs: Stages of training; the last is ``eta ** (rungs - 1)`` times the first.
        options: ``limits``.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[Objective],
        seed: int = 0,
        eta: int = 3,
        rungs: int = 4,
        **options: Any,
    ) -> None:
        super().__init__(space, objectives, seed, **options)
        if eta < 2 or rungs < 1:
            raise InputError(f"eta={eta} must be at least 2 and rungs={rungs} at least 1.")
        self.eta, self.rungs = eta, rungs
        self.finished: list[Trial] = []  # also the failed ones
        self.counted: set[int] = set()  # numbers of those that did not fail

    def tell(self, trial: Trial) -> None:
        self.finished.append(trial)
        super().tell(trial)

    def learn(self, trial: Trial) -> None:
        self.counted.add(trial.number)

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        promoted = {trial.continues for trial in (*self.finished, *pending)}
        for trial in self.promising(pending):
            if trial.number not in promoted:
                return Proposal(
                    trial.decisions, (trial.number,), trial.rung + 1, trial.number, "promotion"
                )
        rng = self.rng(number)
        found = self.fresh(lambda looks: self.sample(rng, looks, pending), rng, pending)
        return None if found is None else Proposal(found, note="sample")

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
