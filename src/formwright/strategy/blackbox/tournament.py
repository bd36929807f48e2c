"""Evolution by tournaments: the best of a few is the parent, the worst of a few dies.

Papers: Goldberg and Deb 1991; the search of the Evolved Transformer, So et al. 2019,
https://arxiv.org/abs/1901.11117. Good members live on, so it suits measurements without noise.
Differs from the papers: with several objectives members are compared by front and room.
"""

from collections.abc import Sequence

from formwright.strategy.blackbox.base import strategy
from formwright.strategy.blackbox.evolution import RegularisedEvolution
from formwright.trial import Trial


@strategy("tournament")
class Tournament(RegularisedEvolution):
    """Regularised evolution without ageing; the arguments are the same."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.members: tuple[Trial, ...] = ()

    def learn(self, trial: Trial) -> None:
        self.members = (*self.members, trial)
        if len(self.members) > self.population:
            rng = self.rng(trial.number, "death")
            loser = self.ordered(rng.sample(self.members, self.tournament))[-1]
            self.members = tuple(member for member in self.members if member is not loser)

    def alive(self) -> Sequence[Trial]:
        return self.members
