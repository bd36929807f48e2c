"""Constraints: what members of a space must satisfy, beyond its declaration."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from formwright.arch.node import Node
from formwright.errors import SpecError


class Constraint(Node):
    """A condition on members. A declared node, so that a space with it can be written down."""

    @abstractmethod
    def excess(self, member: Any) -> float:
        """How far a member is from satisfying it; 0 when it does. Guides the way back in."""

    @abstractmethod
    def describe(self) -> str:
        """The condition in a few words: ``params at most 10M``."""


class Where(Constraint):
    """Any function as a condition. A space with one cannot be written to a file.

    Args:
        holds: Whether a member is allowed; or, as a number, how far it is from that.
        words: The condition in a few words.
    """

    NAME = "where"

    def __init__(self, holds: Callable[[Any], bool | float], words: str = "") -> None:
        object.__setattr__(self, "holds", holds)
        object.__setattr__(self, "words", words or getattr(holds, "__name__", "a condition"))

    def excess(self, member: Any) -> float:
        found = self.__dict__["holds"](member)
        return float(not found) if isinstance(found, bool) else max(0.0, float(found))

    def describe(self) -> str:
        return str(self.__dict__["words"])

    def changed(self) -> dict[str, Any]:
        raise SpecError(
            f"The constraint {self.describe()!r} is a Python function and cannot be written to a "
            "file; use a declared constraint such as Limit."
        )
