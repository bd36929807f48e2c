"""What a space is to the rest of the program: a set of members that can be drawn and changed.

Strategies see only this. A member is known by its decisions, a mapping of names to any JSON, which
is what a trial stores. Every space can draw, change, resolve and be written down; what only some
can do (count, list, encode, cross, read back) is a class of its own that a space may also be and
that a strategy may ask for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from random import Random
from typing import Any, ClassVar, Self

import numpy as np

from formwright.arch.frame import Frame
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

    kind: ClassVar[str]  # what it is restored by; registered with ``space_kind``
    name: str = "space"
    constraints: tuple[Constraint, ...] = ()

    def __init__(self, constraints: Sequence[Constraint] = ()) -> None:
        self.constraints = tuple(constraints)

    # --- what every space must do -------------------------------------------------------

    @abstractmethod
    def draw(self, rng: Random) -> Decisions:
        """A member at random, constraints not looked at."""

    @abstractmethod
    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        """A member unlike its parent, constraints not looked at.

        With ``rate`` every part of it changes with that probability, otherwise one does.
        """

    @abstractmethod
    def resolve(self, decisions: Decisions) -> Any:
        """The member itself, for most spaces an architecture."""

    @abstractmethod
    def to_data(self) -> dict[str, Any]:
        """What ``from_data`` needs, as plain JSON; constraints are written down elsewhere."""

    @classmethod
    @abstractmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Space":
        """The inverse of ``to_data``; anything else raises ``FormatError``."""

    # --- what it may say differently ----------------------------------------------------

    def for_frame(self, frame: Frame) -> "Space":
        """The same space for a task's frame; itself where members have no frame."""
        return self

    def explain(self, parent: Decisions, child: Decisions) -> str:
        """What was changed from one member to another, in words."""
        return ", ".join(changed_decisions(parent, child))

    def option_words(self) -> dict[str, list[str]]:
        """What options are called, of decisions that store only which one was taken."""
        return {}

    def outline(self) -> str:
        """What is open in it, as text."""
        return f"{self.name}: {(self.__doc__ or type(self).__name__).partition(chr(10))[0]}"

    # --- what follows -------------------------------------------------------------------

    def limited(self, *constraints: Constraint) -> Self:
        """The members that satisfy these as well."""
        found = copy(self)
        found.__dict__.pop("_home", None)  # which follows from the constraints
        found.constraints = (*self.constraints, *constraints)
        return found

    def sample(self, rng: Random, looks: Looks | None = None) -> Decisions:
        """A member at random that satisfies the constraints.

        Where they are so tight that it takes too long, a member not far from one that is the same
        for every caller; ``Unsatisfied`` where there seems to be none at all.
        """
        if not self.constraints:
            return self.draw(rng)
        looks = looks or Looks(sum(_SAMPLE) + _STROLL)
        found, violation = self._found(lambda: self.draw(rng), rng, _SAMPLE, looks, spare=_STROLL)
        return self._strolled(rng, looks) if found is None or violation > 0 else found

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

    def violation(self, decisions: Decisions) -> float:
        """How far a member is from satisfying every constraint; 0 when it does."""
        if not self.constraints:
            return 0.0
        member = self.resolve(decisions)
        return sum(constraint.violation(member) for constraint in self.constraints)

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
        found, violation = self._found(draw, rng, _CHILD, few, unlike=unlike)
        if found is not None and violation == 0:
            return found
        return parent if self.violation(parent) == 0 else self.sample(rng, looks)

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
            violation = self.violation(found)
            if violation == 0 and (unlike is None or found != unlike):
                return found, violation
            if 0 < violation < least or (walks and violation == least):  # also along a plain
                best, least = found, violation
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
        found, violation = self._home
        if found is None or violation > 0:
            words = "; ".join(constraint.describe() for constraint in self.constraints)
            raise Unsatisfied(
                f"Nothing in the space {self.name!r} was found that satisfies: {words}. The "
                f"closest of {_WALKS * sum(_HOME)} tried misses it by {violation:.3g}; relax a "
                "limit or widen the space."
            )
        for _ in range(min(_STROLL, looks.left)):
            looks.left -= 1
            child = self.change(found, rng)
            if self.violation(child) == 0:
                found = child
        return found


class Countable(Space):
    """A space that knows its size."""

    @abstractmethod
    def size(self) -> int:
        """How many members there are, constraints not looked at."""


class Enumerable(Space):
    """A space that can list its members."""

    @abstractmethod
    def members(self) -> Iterator[Decisions]:
        """Every member that satisfies the constraints, in a fixed order."""


class Encodable(Space):
    """A space that can write a member as a vector, for predictors."""

    @abstractmethod
    def columns(self) -> list[str]:
        """What each number of an encoding means."""

    @abstractmethod
    def encode(self, decisions: Decisions) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """A member as a vector."""

    def distance(self, a: Decisions, b: Decisions) -> float:
        """How unlike two members are: the mean absolute difference of their encodings."""
        return float(np.abs(self.encode(a) - self.encode(b)).mean())


class Crossable(Space):
    """A space whose members can have two parents."""

    @abstractmethod
    def blend(self, a: Decisions, b: Decisions, rng: Random) -> Decisions:
        """A member made from parts of two, constraints not looked at."""

    def cross(
        self, a: Decisions, b: Decisions, rng: Random, looks: Looks | None = None
    ) -> Decisions:
        """A member made from parts of two; ``a`` where constraints allow none."""
        if not self.constraints:
            return self.blend(a, b, rng)
        return self._child(lambda: self.blend(a, b, rng), a, rng, looks)


class Comparable(Space):
    """A space that can tell whether two members compute the same."""

    @abstractmethod
    def fingerprint(self, decisions: Decisions) -> str:
        """Equal for members that compute the same function, as far as can be told quickly."""


class Guided(Space):
    """A space whose members are made of words, which a strategy may prefer some of."""

    @abstractmethod
    def vocabulary(self) -> tuple[str, ...]:
        """All words there are."""

    @abstractmethod
    def words(self, decisions: Decisions) -> list[str]:
        """The words that a member is made of, each once."""

    @abstractmethod
    def guided(self, parent: Decisions, rng: Random, scores: Mapping[str, float]) -> Decisions:
        """A member unlike its parent; where it gets a new word, those of high score come first."""


class Invertible(Space):
    """A space that can tell where a member lies in it."""

    @abstractmethod
    def decisions_of(self, member: Any) -> Decisions | None:
        """The decisions that lead to a member; None when it is not in the space."""

    def contains(self, member: Any) -> bool:
        """Whether a member is in the space and satisfies its constraints."""
        found = self.decisions_of(member)
        return found is not None and self.violation(found) == 0


def changed_decisions(before: Decisions, after: Decisions) -> list[str]:
    """Decisions that differ, in words."""
    said = []
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            said.append(f"{name}: removed {before[name]}")
        elif name not in before:
            said.append(f"{name}: added {after[name]}")
        elif before[name] != after[name]:
            said.append(f"{name}: {before[name]} -> {after[name]}")
    return said
