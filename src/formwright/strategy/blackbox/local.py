"""Local search: try the neighbours of the best, move when one is better, start anew when none is.

Paper: White et al. 2020, https://arxiv.org/abs/2005.02960. Where measurements are not noisy it
rivals far more elaborate methods.
Differs from the paper: with several objectives the neighbours of all members of the front are
tried in turn; neighbours are drawn, not listed; a restart adds a sample and keeps the front.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from formwright.errors import InputError
from formwright.space import Space
from formwright.strategy.blackbox.base import Strategy, strategy
from formwright.trial import Objective, Proposal, Trial


@strategy("local")
class LocalSearch(Strategy):
    """Changes one decision of a member of the front.

    Args:
        space: Where proposals come from.
        objectives: What counts.
        seed: The same seed and the same history give the same proposals.
        start: Random trials to begin with.
        patience: Neighbours of one member tried before it counts as a local best.
        options: ``limits``.
    """

    def __init__(
        self,
        space: Space,
        objectives: Sequence[Objective],
        seed: int = 0,
        start: int = 10,
        patience: int = 30,
        **options: Any,
    ) -> None:
        super().__init__(space, objectives, seed, **options)
        if start < 1 or patience < 1:
            raise InputError(f"start={start} and patience={patience} must both be at least 1.")
        self.start, self.patience = start, patience
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
            found = self.fresh(lambda looks: self.sample(rng, looks, pending), rng, pending)
            return None if found is None else Proposal(found, note="sample")
        fewest = min(tried[member.number] for member in open_)
        parent = rng.choice([m for m in open_ if tried[m.number] == fewest])
        found = self.fresh(
            lambda looks: self.space.mutate(parent.decisions, rng, looks=looks), rng, pending
        )
        return None if found is None else Proposal(found, (parent.number,), note="neighbour")
