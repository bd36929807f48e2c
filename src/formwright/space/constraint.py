"""Constraints: what members of a space must satisfy, beyond its declaration."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from formwright.arch.node import Node, node
from formwright.errors import SpecError


class Unsatisfied(SpecError):
    """No member was found that satisfies the constraints."""


class Constraint(Node):
    """A condition on members. A declared node, so that a space with it can be written down."""

    @abstractmethod
    def violation(self, member: Any) -> float:
        """How far a member is from satisfying it; 0 when it does. Guides the way back in."""

    @abstractmethod
    def describe(self) -> str:
        """The condition in a few words: ``params at most 10M``."""


@node("where")
class Where(Constraint):
    """Any function as a condition.

    A file keeps its words only, and so do worker processes, which need no more. A space that is
    read back has to be given anew before it can be searched.

    Args:
        holds: Whether a member is allowed; or, as a number, how far it is from that.
        words: The condition in a few words; the name of the function when not given.
    """

    words: str

    def __init__(self, holds: Callable[[Any], bool | float] | None = None, words: str = "") -> None:
        object.__setattr__(self, "holds", holds)
        object.__setattr__(self, "words", words or getattr(holds, "__name__", "a condition"))
        super().__post_init__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Where):
            return NotImplemented
        same = self.__dict__["holds"] is other.__dict__["holds"]
        return same and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    def __getstate__(self) -> dict[str, Any]:
        """What is sent to other processes: most functions cannot be."""
        return super().__getstate__() | {"holds": None}

    def __copy__(self) -> "Where":
        return self

    def __deepcopy__(self, memory: Any) -> "Where":
        return self

    def violation(self, member: Any) -> float:
        holds = self.__dict__["holds"]
        if holds is None:
            raise SpecError(
                f"The constraint {self.words!r} is a Python function, of which a file keeps the "
                "words only; give the space itself: Study.open(folder, space=...)."
            )
        found = holds(member)
        return float(not found) if isinstance(found, bool) else max(0.0, float(found))

    def describe(self) -> str:
        return self.words
