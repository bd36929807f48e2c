"""Successive halving: train many a little, the best third longer, the best ninth longer still.

Paper: Jamieson and Talwalkar 2016, https://arxiv.org/abs/1502.07943. Rung r trains ``eta**r`` times
as long as the first; a promoted trial carries on the training of the earlier one.
Differs from the paper: when a bracket is done, or must wait for trials still running, the next
bracket begins; with several objectives trials are ranked by front and room.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from formwright.strategy.blackbox.asha import Asha
from formwright.strategy.blackbox.base import strategy
from formwright.trial import Trial


@strategy("halving")
@dataclass(kw_only=True, eq=False)
class SuccessiveHalving(Asha):
    """Brackets of ``eta ** (rungs - 1)`` random members, halved when a rung is complete.

    The arguments are those of ASHA.
    """

    def promising(self, pending: Sequence[Trial]) -> list[Trial]:
        bracket = self.eta ** (self.rungs - 1)
        running = {trial.number for trial in pending}
        everyone = sorted((*self.finished, *pending), key=lambda trial: trial.number)
        first = [trial for trial in everyone if trial.rung == 0]
        heirs = {trial.continues: trial for trial in everyone if trial.continues is not None}
        found: list[Trial] = []
        for at in range(0, len(first), bracket):
            rung, size = first[at : at + bracket], bracket
            while size > 1 and len(rung) == size and not running & {t.number for t in rung}:
                chosen = [trial for trial in rung if trial.number in heirs]
                if len(chosen) < size // self.eta:  # not all are promoted yet
                    chosen = self.best(rung, size // self.eta)
                    found += chosen
                size = len(chosen)
                rung = [heirs[t.number] for t in chosen if t.number in heirs]
                if rung and rung[0].rung == self.rungs - 1:
                    break
        return found
