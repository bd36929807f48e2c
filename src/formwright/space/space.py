"""What a space is to the rest of the program: a set of members that can be drawn and changed.

Strategies see only this. A member is known by its decisions, a flat mapping of names to plain
values, which is what a trial stores. Spaces of programs, whose length varies, implement the same
few methods with mutations of their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import numpy as np

from formwright.errors import SpecError
from formwright.space.constraint import Constraint
from formwright.space.part import Decisions

_TRIES = 500  # draws before a space is searched for its nearest member instead
_WALK = 4000  # steps of that search


class Space(ABC):
    """A set of members. All randomness comes from the caller.

    Args:
        constraints: What members must satisfy beyond the declaration.
    """

    name: str = "space"

    def __init__(self, constraints: Sequence[Constraint] = ()) -> None:
        self.constraints = tuple(constraints)

    @abstractmethod
    def draw(self, rng: Random) -> Decisions:
        """A member at random, constraints not looked at."""

    @abstractmethod
    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        """A member unlike its parent, constraints not looked at."""

    @abstractmethod
    def blend(self, a: Decisions, b: Decisions, rng: Random) -> Decisions:
        """A member that takes each decision from one of two parents, constraints not looked at."""

    @abstractmethod
    def resolve(self, decisions: Decisions) -> Any:
        """The member itself, for most spaces an architecture."""

    @abstractmethod
    def decisions_of(self, member: Any) -> Decisions | None:
        """The decisions that lead to a member; None when it is not in the space."""

    @abstractmethod
    def size(self) -> int:
        """How many members there are, constraints not looked at."""

    @abstractmethod
    def members(self) -> Iterator[Decisions]:
        """Every member that satisfies the constraints, in a fixed order."""

    @abstractmethod
    def columns(self) -> list[str]:
        """What each number of an encoding means."""

    @abstractmethod
    def encode(self, decisions: Decisions) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """A member as a vector, for surrogates."""

    @abstractmethod
    def to_data(self) -> dict[str, Any]:
        """The space as plain JSON."""

    def sample(self, rng: Random) -> Decisions:
        """A member at random that satisfies the constraints."""
        return self._settled(lambda: self.draw(rng), rng)

    def mutate(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        """A member that differs from its parent: in one decision, or in each with ``rate``."""
        return self._settled(lambda: self.change(parent, rng, rate), rng)

    def cross(self, a: Decisions, b: Decisions, rng: Random) -> Decisions:
        """A member that takes each decision from one of two parents."""
        return self._settled(lambda: self.blend(a, b, rng), rng)

    def contains(self, member: Any) -> bool:
        """Whether a member is in the space and satisfies its constraints."""
        found = self.decisions_of(member)
        return found is not None and self.excess(found) == 0

    def distance(self, a: Decisions, b: Decisions) -> float:
        """How unlike two members are: the mean absolute difference of their encodings."""
        return float(np.abs(self.encode(a) - self.encode(b)).mean())

    def excess(self, decisions: Decisions) -> float:
        """How far a member is from satisfying every constraint; 0 when it does."""
        if not self.constraints:
            return 0.0
        member = self.resolve(decisions)
        return sum(constraint.excess(member) for constraint in self.constraints)

    def _settled(self, draw: Callable[[], Decisions], rng: Random) -> Decisions:
        """Draw until the constraints hold; where they hardly ever do, walk towards them."""
        if not self.constraints:
            return draw()
        best, least = None, float("inf")
        for _ in range(_TRIES):
            found = draw()
            excess = self.excess(found)
            if excess == 0:
                return found
            if excess < least:
                best, least = found, excess
        if best is None:
            best = draw()
        for _ in range(_WALK):
            found = self.change(best, rng)
            excess = self.excess(found)
            if excess == 0:
                return found
            if excess <= least:
                best, least = found, excess
        words = "; ".join(constraint.describe() for constraint in self.constraints)
        raise SpecError(
            f"Nothing in the space {self.name!r} was found that satisfies: {words}. The closest "
            f"of {_TRIES + _WALK} tried misses it by {least:.3g}; relax a limit or widen the space."
        )
