"""Many short trials, the best of them made longer: a surrogate proposes, rungs promote.

New members are proposed by another strategy and tried briefly. Whenever a rung has ``eta`` times
as many finished trials as were promoted from it, the best of them that has not gone on is
continued, ``eta`` times as long, before anything new is begun (ASHA's rule, Li et al. 2020,
https://arxiv.org/abs/1810.05934).
"""

from collections.abc import Sequence
from typing import Any

from formwright.errors import InputError
from formwright.space import Space
from formwright.strategy.blackbox.base import Strategy, make_strategy, strategy
from formwright.trial import Objective, Proposal, Trial


@strategy("staged")
class Staged(Strategy):
    """The default where trials are trained.

    Args:
        space: Where proposals come from.
        objectives: What counts.
        seed: The same seed and the same history give the same proposals.
        eta: One in so many trials goes on from each rung.
        rungs: Stages in all.
        inner: The strategy that proposes what is new; it learns from the first rung only, where
            all trials are alike.
        options: ``limits``, and whatever the inner strategy takes.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[Objective],
        seed: int = 0,
        eta: int = 3,
        rungs: int = 2,
        inner: str = "surrogate",
        **options: Any,
    ) -> None:
        super().__init__(space, objectives, seed, limits=options.get("limits"))
        if eta < 2 or rungs < 1 or inner == self.NAME:
            raise InputError(
                f"eta={eta}, rungs={rungs}, inner={inner!r} make no stages; give eta of at least "
                "2, at least one rung, and another strategy inside."
            )
        self.eta, self.rungs = eta, rungs
        self.inner = make_strategy(inner, space, objectives, seed, **options)
        self.promoted: set[int] = set()

    def tell(self, trial: Trial) -> None:
        super().tell(trial)
        if trial.continues is not None:
            self.promoted.add(trial.continues)
        if trial.rung == 0:
            self.inner.tell(trial)

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        gone_on = self.promoted | {t.continues for t in pending if t.continues is not None}
        for rung in reversed(range(self.rungs - 1)):
            best = self._promotable(rung, gone_on)
            if best is not None:
                return Proposal(
                    best.decisions, (best.number,), rung + 1, best.number, f"rung {rung + 1}"
                )
        return self.inner.ask(number, [trial for trial in pending if trial.rung == 0])

    def _promotable(self, rung: int, gone_on: set[int]) -> Trial | None:
        """The best of a rung that has not gone on, if it is one of the best in ``eta``."""
        here = [trial for trial in self.trials if trial.rung == rung]
        share = len(here) // self.eta
        if sum(trial.number in gone_on for trial in here) >= share:
            return None
        best = self.ordered(here, share)[:share]
        return next((trial for trial in best if trial.number not in gone_on), None)
