"""Search on predictions, then confirm by measurement what the predictions put on the front.

The first rung is cheap and may be wrong by a little: a predicted latency. When it has had its
trials, everything that its error could have kept off the front is tried again on the second rung,
which is measured. The front of a study is that of its last rung, so all of it was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from formwright.errors import InputError
from formwright.strategy.blackbox.base import Strategy, inner_strategy, strategy
from formwright.strategy.pareto import Array, Ints, pareto_mask
from formwright.trial import WAITING, Proposal, Trial


@strategy("two_stage")
@dataclass(kw_only=True, eq=False)
class TwoStage(Strategy):
    """Another strategy for the first rung, then the front of it on the second.

    Args:
        inner: The strategy of the first rung.
        first: Trials of the first rung.
        slack: How far, as a share, a prediction may be off: what would be on the front if its
            costs were that much smaller is confirmed too.
        most: Trials of the second rung at most; the front itself always comes first.
        options: Of the inner strategy.
    """

    inner: str = "lts"
    first: int = 2420
    slack: float = 0.0
    most: int = 1000
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        good = self.first >= 1 and self.most >= 1 and 0 <= self.slack < 1
        if not good or self.inner == self.NAME:
            raise InputError(
                f"first={self.first}, most={self.most}, slack={self.slack}, inner={self.inner!r} "
                "cannot be used; give at least 1, at least 1, a share below 1, and another "
                "strategy inside."
            )
        self.proposer = inner_strategy(self, self.inner, self.options)
        self.begun = 0
        self.confirmed: set[int] = set()
        self.queue: list[Trial] | None = None  # made once the first rung is complete

    def tell(self, trial: Trial) -> None:
        super().tell(trial)
        if trial.rung == 0:
            self.begun += 1
            self.proposer.tell(trial)
        elif trial.continues is not None:
            self.confirmed.add(trial.continues)

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        waiting = [trial for trial in pending if trial.rung == 0]
        if self.begun + len(waiting) < self.first:
            proposal = self.proposer.ask(number, waiting)
            if proposal is not None:  # else the space is used up: confirm what there is
                return proposal
        if waiting:  # the last of the first rung are still out: repeat one of them, for nothing
            return Proposal(decisions=waiting[0].decisions, origin=WAITING)
        if self.queue is None:
            self.queue = self._promising()
        taken = self.confirmed | {t.continues for t in pending if t.continues is not None}
        left = next((trial for trial in self.queue if trial.number not in taken), None)
        return None if left is None else self.promoted(left)

    def _promising(self) -> list[Trial]:
        """The front of the first rung, then what an error could have kept off it."""
        judged = zip(self.trials, self.violation.tolist(), strict=True)
        first = [(trial, over) for trial, over in judged if trial.rung == 0]
        here = [trial for trial, over in first if over <= 0] or [trial for trial, _ in first]
        if not here:
            return []
        costs = np.array([trial.costs(self.objectives) for trial in here])
        front = pareto_mask(costs)
        best = costs[front]
        better = costs - self.slack * np.abs(costs)
        beaten = (best[None] <= better[:, None]).all(axis=2) & (best[None] < better[:, None]).any(
            axis=2
        )
        close = ~beaten.any(axis=1)
        chosen = _spread(costs, np.flatnonzero(front), self.most)
        left = self.most - len(chosen)
        chosen += _spread(costs, np.flatnonzero(close & ~front), left)
        return [here[i] for i in chosen]


def _spread(costs: Array, rows: Ints, most: int) -> list[int]:
    """At most so many rows, evenly along the first cost, of each stretch the least in the second.

    A front of three objectives can hold half of what was tried: to confirm all of it would cost
    as much as to search by measuring.
    """
    if most < 1 or not len(rows):
        return []
    ordered = rows[np.argsort(costs[rows, 0], kind="stable")]
    if len(ordered) <= most:
        return [int(i) for i in ordered]
    second = costs[:, min(1, costs.shape[1] - 1)]
    stretches = np.array_split(ordered, most)
    return [int(part[second[part].argmin()]) for part in stretches]
