"""OP-NAS: the best members have children whose operations are chosen by how well they did.

Paper: AutoBERT-Zero, Gao et al. 2022, https://arxiv.org/abs/2107.07445. The population begins at
random and only grows; each of its best ``parents`` has a child in turn: first a change between
layers, then one inside a layer, whose operation is drawn by its upper confidence bound. In a space
that has no operations to choose from, children are plain changes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from formwright.errors import InputError
from formwright.space import Guided
from formwright.strategy.blackbox.base import strategy
from formwright.strategy.blackbox.hurdled import Hurdled
from formwright.strategy.ucb import arms, bounds
from formwright.trial import MUTATION, SEED, Proposal, Trial, key_of


@strategy("opnas")
@dataclass(kw_only=True, eq=False)
class OpNas(Hurdled):
    """Evolution over what the space says its members are made of.

    Args:
        start: Members at random before the first child.
        parents: The best so many have children, in turn.
        alpha: How much what was hardly tried is worth trying.
    """

    start: int = 20
    parents: int = 5
    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start < 1 or self.parents < 1 or self.alpha < 0:
            raise InputError(
                f"start={self.start}, parents={self.parents}, alpha={self.alpha} make no search; "
                "give at least 1 of both, and alpha of at least 0."
            )
        self.counted: list[tuple[float, tuple[str, ...]]] = []  # cost and words of each member

    def learn(self, trial: Trial) -> None:
        if isinstance(self.space, Guided) and not trial.control:
            cost = self.foreseen(trial).costs(self.objectives)[0]
            self.counted.append((cost, tuple(self.space.words(trial.decisions))))

    def _settle(self, trial: Trial, member: Trial | None) -> None:
        """Nobody dies."""
        self.ended += 1
        self.members = self.members if member is None else (*self.members, member)

    def _child(self, number: int, pending: Sequence[Trial]) -> Proposal | None:
        taken = self.known | {trial.key for trial in pending}
        for decisions in self.seeds:
            if key_of(decisions) not in taken:
                return Proposal(decisions=decisions, origin=SEED)
        if self.at_random or len(self.members) < self.start:  # it has no seeds to go out from
            return self.drawn(number, pending)
        rng = self.rng(number)
        best = self.ordered(self.members, enough=self.parents)[: self.parents]
        parent = best[number % len(best)]
        space = self.space
        if not isinstance(space, Guided):
            return self.mutated(parent, rng, pending, self.rate)
        scores = self.bounds()
        return self.born(
            MUTATION,
            (parent,),
            lambda looks: space.guided(parent.decisions, rng, scores),
            rng,
            pending,
        )

    def bounds(self) -> Mapping[str, Any]:
        """The upper confidence bound of every operation, from what was told."""
        assert isinstance(self.space, Guided)
        return bounds(arms(self.space.vocabulary(), self.counted), self.alpha)
