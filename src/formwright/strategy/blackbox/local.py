"""Local search: try the neighbours of the best, move when one is better, start anew when none is.

Paper: White et al. 2020, https://arxiv.org/abs/2005.02960. Where measurements are not noisy it
rivals far more elaborate methods.
Differs from the paper: with several objectives the neighbours of all members of the front are
tried in turn; neighbours are drawn, not listed; a restart adds a sample and keeps the front.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from formwright.errors import InputError
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Proposal, Trial


@strategy("local")
@dataclass(kw_only=True, eq=False)
class LocalSearch(Strategy):
    """Changes one decision of a member of the front.

    Args:
        start: Random trials to begin with.
        patience: Neighbours of one member tried before it counts as a local best.
    """

    start: int = 10
    patience: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start < 1 or self.patience < 1:
            raise InputError(
                f"start={self.start} and patience={self.patience} must both be at least 1."
            )
        self.front: list[Trial] = []
        self.children: Counter[int] = Counter()  # by number of the parent

    def tell(self, trial: Trial) -> None:
        self.children.update(trial.parents)  # failed neighbours were tried as well
        super().tell(trial)

    def learn(self, trial: Trial) -> None:
        self.front = self.front_of([*self.front, trial])

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        rng = self.rng(number)
        tried = self.children + Counter(n for trial in pending for n in trial.parents)
        open_ = [member for member in self.front if tried[member.number] < self.patience]
        if len(self.trials) < self.start or not open_:
            return self.drawn(number, pending)
        fewest = min(tried[member.number] for member in open_)
        parent = rng.choice([m for m in open_ if tried[m.number] == fewest])
        return self.mutated(parent, rng, pending)
