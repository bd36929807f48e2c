"""Several spaces as one: each member lies in one of them, which is a decision like any other.

AutoDistil's sub-spaces (Xu et al. 2022, https://arxiv.org/abs/2201.12507) are such parts: each has
a supernet of its own, and all are searched together.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from formwright.arch.frame import Frame
from formwright.errors import FormatError, SpecError
from formwright.space.constraint import Constraint
from formwright.space.part import Decisions
from formwright.space.registry import space_data, space_from_data, space_kind
from formwright.space.space import Countable, Enumerable, Invertible
from formwright.space.tree import TreeSpace

PART = "part"  # the decision which of them a member lies in
_SWITCH = 0.1  # how often a change leads into another part


@space_kind("union")
class UnionSpace(Countable, Enumerable, Invertible):
    """The members of several spaces, each drawn as often as it has members.

    Args:
        parts: The spaces, each with a name of its own.
        constraints: What members must satisfy as well.
        name: What to call it in messages and reports.
    """

    def __init__(
        self,
        parts: Sequence[TreeSpace],
        constraints: Sequence[Constraint] = (),
        name: str = "union",
    ) -> None:
        super().__init__(constraints)
        self.parts = {part.name: part for part in parts}
        self.name = name
        if not parts or len(self.parts) != len(parts):
            raise SpecError("A union is made of spaces with different names; give at least one.")
        if any(PART in part.choices for part in parts):
            raise SpecError(f"A space with a decision {PART!r} cannot be part of a union.")

    def inside(self, decisions: Decisions) -> tuple[TreeSpace, dict[str, Any]]:
        """The part that a member lies in, and its decisions there."""
        which = decisions.get(PART)
        if which not in self.parts:
            raise SpecError(
                f"The decision {PART} = {which!r} is not one of {', '.join(self.parts)}."
            )
        return self.parts[str(which)], {n: v for n, v in decisions.items() if n != PART}

    def draw(self, rng: Random) -> Decisions:
        sizes = [part.size() for part in self.parts.values()]
        (name,) = rng.choices(list(self.parts), sizes)
        return {PART: name, **self.parts[name].draw(rng)}

    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        part, own = self.inside(parent)
        others = [name for name in self.parts if name != part.name]
        if others and (part.size() == 1 or rng.random() < (rate or _SWITCH)):
            name = rng.choice(others)
            return {PART: name, **self.parts[name].draw(rng)}
        return {PART: part.name, **part.change(own, rng, rate)}

    def resolve(self, decisions: Decisions) -> Any:
        part, own = self.inside(decisions)
        return part.resolve(own)

    def decisions_of(self, member: Any) -> Decisions | None:
        for name, part in self.parts.items():
            found = part.decisions_of(member)
            if found is not None:
                return {PART: name, **found}
        return None

    def size(self) -> int:
        return sum(part.size() for part in self.parts.values())

    def members(self) -> Iterator[Decisions]:
        for name, part in self.parts.items():
            for own in part.members():
                found = {PART: name, **own}
                if self.violation(found) == 0:
                    yield found

    def for_frame(self, frame: Frame) -> "UnionSpace":
        parts = [part.for_frame(frame) for part in self.parts.values()]
        return UnionSpace(parts, self.constraints, self.name)

    def outline(self) -> str:
        lines = [f"{self.name}: {self.size():,} members in {len(self.parts)} parts"]
        return "\n".join((*lines, *(part.outline() for part in self.parts.values())))

    def to_data(self) -> dict[str, Any]:
        return {"name": self.name, "parts": [space_data(part) for part in self.parts.values()]}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "UnionSpace":
        parts = [space_from_data(part) for part in data.get("parts") or ()]
        if not all(isinstance(part, TreeSpace) for part in parts):
            raise FormatError('"parts" must hold spaces of the kind tree.')
        return cls([p for p in parts if isinstance(p, TreeSpace)], name=str(data.get("name")))
