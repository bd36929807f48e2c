"""What a space is to the rest of the program: a set of members that can be drawn and changed.

Strategies see only this. A member is known by its decisions, a flat mapping of names to plain
values, which is what a trial stores. Spaces of programs, whose length varies, implement the same
few methods with mutations of their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from formwright.space.constraint import Constraint, Unsatisfied
from formwright.space.part import Decisions

# Where constraints hardly ever hold, members are looked for: first so many draws, then so many
# steps from the closest of them towards the constraints.
_SAMPLE = 500, 300
_CHILD = 40, 20  # the same for what comes of parents, which are members to fall back on
_HOME = 60, 440  # and for the one member that every sample can fall back on, each of so many
_WALKS = 9  # times: a step has to lead closer, so one walk may end where no step does
_STROLL = 24  # steps away from that member


class Looks:
    """How often constraints may still be looked at: shared by draws that together must be quick.

    They are counted and not timed, so that the same draws come to the same end everywhere.
    """

    def __init__(self, left: int = 900) -> None:
        self.left = left


class Space(ABC):
    """A set of members. All randomness comes from the caller.

    Where there are constraints, no draw takes more than a fixed number of looks at them, however
    tight they are.

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

    def sample(self, rng: Random, looks: Looks | None = None) -> Decisions:
        """A member at random that satisfies the constraints.

        Where they are so tight that it takes too long, a member not far from one that is the same
        for every caller; ``Unsatisfied`` where there seems to be none at all.
        """
        if not self.constraints:
            return self.draw(rng)
        looks = looks or Looks(sum(_SAMPLE) + _STROLL)
        found, excess = self._found(lambda: self.draw(rng), rng, _SAMPLE, looks, spare=_STROLL)
        return self._strolled(rng, looks) if found is None or excess > 0 else found

    def mutate(
        self,
        parent: Decisions,
        rng: Random,
        rate: float | None = None,
        looks: Looks | None = None,
    ) -> Decisions:
        """A member that differs from its parent: in one decision, or in each with ``rate``.

        Where constraints are so tight that none is found, the parent itself.
        """
        if not self.constraints:
            return self.change(parent, rng, rate)
        return self._child(lambda: self.change(parent, rng, rate), parent, rng, looks, parent)

    def cross(
        self, a: Decisions, b: Decisions, rng: Random, looks: Looks | None = None
    ) -> Decisions:
        """A member that takes each decision from one of two parents; ``a`` where none is found."""
        if not self.constraints:
            return self.blend(a, b, rng)
        return self._child(lambda: self.blend(a, b, rng), a, rng, looks)

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

    def _child(
        self,
        draw: Callable[[], Decisions],
        parent: Decisions,
        rng: Random,
        looks: Looks | None,
        unlike: Decisions | None = None,
    ) -> Decisions:
        """What comes of parents and satisfies the constraints; else a parent that does."""
        few = looks or Looks(sum(_CHILD))
        found, excess = self._found(draw, rng, _CHILD, few, unlike=unlike)
        if found is not None and excess == 0:
            return found
        return parent if self.excess(parent) == 0 else self.sample(rng, looks)

    def _found(
        self,
        draw: Callable[[], Decisions],
        rng: Random,
        effort: tuple[int, int],
        looks: Looks,
        *,
        unlike: Decisions | None = None,
        spare: int = 0,
    ) -> tuple[Decisions | None, float]:
        """The first of so many draws and steps that satisfies the constraints, else the closest.

        Args:
            draw: Draws one member.
            rng: The source of every step.
            effort: How many draws, then how many steps.
            looks: At constraints, of which ``spare`` are left.
            unlike: What must not be found.
            spare: See ``looks``.

        Returns:
            What was found and by how much it misses; None where ``looks`` allowed nothing.
        """
        draws, steps = effort
        best, least = None, float("inf")
        for number in range(min(draws + steps, looks.left - spare)):
            walks = best is not None and number >= draws
            found = self.change(best, rng) if best is not None and walks else draw()
            looks.left -= 1
            excess = self.excess(found)
            if excess == 0 and (unlike is None or found != unlike):
                return found, excess
            if 0 < excess < least or (walks and excess == least):  # also along a plain
                best, least = found, excess
        return best, least

    @cached_property
    def _home(self) -> tuple[Decisions | None, float]:
        """A member that satisfies the constraints, or the closest. It follows from the space."""
        rng = Random(0)
        best: tuple[Decisions | None, float] = (None, float("inf"))
        for _ in range(_WALKS):
            found = self._found(lambda: self.draw(rng), rng, _HOME, Looks(sum(_HOME)))
            best = min(best, found, key=lambda pair: pair[1])
            if best[1] == 0:
                break
        return best

    def _strolled(self, rng: Random, looks: Looks) -> Decisions:
        """A walk among members that satisfy the constraints."""
        found, excess = self._home
        if found is None or excess > 0:
            words = "; ".join(constraint.describe() for constraint in self.constraints)
            raise Unsatisfied(
                f"Nothing in the space {self.name!r} was found that satisfies: {words}. The "
                f"closest of {_WALKS * sum(_HOME)} tried misses it by {excess:.3g}; relax a limit "
                "or widen the space."
            )
        for _ in range(min(_STROLL, looks.left)):
            looks.left -= 1
            child = self.change(found, rng)
            if self.excess(child) == 0:
                found = child
        return found
