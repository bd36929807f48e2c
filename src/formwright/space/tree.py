"""A space declared as an architecture with choices in it. Everything comes from the declaration."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any

import numpy as np

from formwright.arch.architecture import Architecture
from formwright.arch.codec import from_data, to_data
from formwright.arch.frame import Frame
from formwright.errors import FormatError, SpecError
from formwright.space.choice import Value
from formwright.space.choosing import Choosing, One, Some
from formwright.space.compile import compiled, linked
from formwright.space.constraint import Constraint
from formwright.space.draw import draw_space, option_words
from formwright.space.encoding import Encoding
from formwright.space.part import Decisions
from formwright.space.registry import space_kind
from formwright.space.space import Countable, Crossable, Encodable, Enumerable, Invertible

FORMAT_VERSION = 1


@space_kind("tree")
class TreeSpace(Countable, Enumerable, Encodable, Crossable, Invertible):
    """The members of a declaration.

    Args:
        declared: An architecture, or any node or list of nodes, with choices in it.
        constraints: What members must satisfy as well.
        name: What to call it in messages and reports.
    """

    def __init__(
        self, declared: Any, constraints: Sequence[Constraint] = (), name: str = "space"
    ) -> None:
        super().__init__(constraints)
        self.declared, self.name = declared, name
        self.root = compiled(declared)
        self.choices: Mapping[str, Choosing] = linked(self.root)
        # What is drawn is looked at by constraints and then evaluated: each need not begin anew.
        self._sound: Decisions = {}  # the decisions last taken, so nothing is wrong with them
        self._last: tuple[Decisions, Any] = ({}, None)  # the member last resolved
        for found in self.choices.values():
            of = getattr(found, "of", None)
            if of is not None and of not in self.choices:
                raise SpecError(
                    f"number {found.name!r} is bounded by the decision {of!r}, which is not in the "
                    "space."
                )

    def for_frame(self, frame: Frame) -> "TreeSpace":
        if not isinstance(self.declared, Architecture):
            return self
        return TreeSpace(self.declared.replace(frame=frame), self.constraints, self.name)

    def draw(self, rng: Random) -> Decisions:
        return self._walk(lambda part, taken: part.draw(taken, rng.randrange))

    def resolve(self, decisions: Decisions) -> Any:
        known, member = self._last
        if member is None or known != decisions:
            known = self.checked(decisions)
            member = self.root.build(known)
            self._last = known, member
        return member

    def checked(self, decisions: Decisions) -> Decisions:
        """The decisions that are in play, each seen to be allowed."""
        sound = self._sound  # once: another thread may take other decisions meanwhile
        if sound and decisions == sound:
            return dict(sound)

        def recall(part: Choosing, taken: Decisions) -> Value:
            if part.name not in decisions:
                raise SpecError(f"The decision {part.name!r} is missing; it must be taken.")
            value: Any = decisions[part.name]
            value = tuple(value) if isinstance(value, list) else value  # as JSON gives it
            if not part.allows(value, taken):
                raise SpecError(f"The decision {part.name} = {value!r} is not allowed here.")
            return value

        return self._walk(recall)

    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        movable = [name for name in parent if len(self._domain(name, parent)) > 1]
        if not movable:
            raise SpecError(f"The space {self.name!r} has one member only; nothing can change.")
        while True:
            chosen = (
                {rng.choice(movable)}
                if rate is None
                else {name for name in movable if rng.random() < rate}
            )
            child = self._walk(
                lambda part, taken, chosen=chosen: (
                    self._other(part, taken, parent[part.name], rng)
                    if part.name in chosen
                    else self._kept(part, taken, parent, rng)
                )
            )
            if child != parent:
                return child

    def blend(self, a: Decisions, b: Decisions, rng: Random) -> Decisions:
        def inherit(part: Choosing, taken: Decisions) -> Value:
            first, second = (a, b) if rng.random() < 0.5 else (b, a)
            return self._kept(part, taken, first if part.name in first else second, rng)

        return self._walk(inherit)

    def decisions_of(self, member: Any) -> Decisions | None:
        for found in self.root.match(member, {}):
            try:
                return self.checked(found)
            except SpecError:  # a bounded number that the matching does not look at
                continue
        return None

    @cached_property
    def _size(self) -> int:
        return sum(self.root.table(frozenset()).values())

    def size(self) -> int:
        return self._size

    def members(self) -> Iterator[Decisions]:
        """Depth first: the last decision in play moves first, as on a counter."""
        path: list[int] = []  # index into the domain of each decision in play
        while True:
            sizes: list[int] = []

            def step(part: Choosing, taken: Decisions, sizes: list[int] = sizes) -> Value:
                domain = part.domain(taken)
                if not domain:
                    raise _DeadEnd
                if len(sizes) == len(path):
                    path.append(0)
                sizes.append(len(domain))
                return domain[path[len(sizes) - 1]]

            try:
                found = self._walk(step)
                if self.violation(found) == 0:
                    yield found
            except _DeadEnd:
                pass
            while path and path[-1] + 1 >= sizes[len(path) - 1]:
                path.pop()
            if not path:
                return
            path[-1] += 1

    @cached_property
    def _encoding(self) -> Encoding:
        return Encoding(list(self.choices.values()))

    def columns(self) -> list[str]:
        return self._encoding.columns

    def encode(self, decisions: Decisions) -> "np.ndarray[Any, np.dtype[np.float64]]":
        return self._encoding(decisions)

    def to_data(self) -> dict[str, Any]:
        return {
            "formwright_space": FORMAT_VERSION,
            "name": self.name,
            "declared": to_data(
                tuple(self.declared) if isinstance(self.declared, list) else self.declared
            ),
        }

    def option_words(self) -> dict[str, list[str]]:
        return {
            name: [option_words(option) for option in getattr(choice.choice, "options", ())]
            for name, choice in self.choices.items()
            if isinstance(choice, One) and not choice.numeric
        }

    def outline(self) -> str:
        return draw_space(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "TreeSpace":
        if data.get("formwright_space") != FORMAT_VERSION:
            raise FormatError(
                f"This is not a space of format version {FORMAT_VERSION}: the key "
                '"formwright_space" is missing or another.'
            )
        return cls(from_data(data.get("declared"), "declared"), name=str(data.get("name")))

    def _walk(self, take: Any) -> dict[str, Value]:
        """Visit every decision in play once; ``take(part, taken)`` says what it is to be."""
        taken: dict[str, Value] = {}

        def pick(part: Choosing) -> Value:
            if part.name not in taken:
                taken[part.name] = take(part, taken)
            return taken[part.name]

        self.root.visit(pick)
        self._sound = dict(taken)
        return taken

    def _domain(self, name: str, decisions: Decisions) -> Sequence[Value]:
        part = self.choices[name]
        return range(2) if isinstance(part, Some) else part.domain(decisions)

    def _kept(self, part: Choosing, taken: Decisions, parent: Decisions, rng: Random) -> Value:
        """The parent's value where it is in play and still allowed, otherwise a new one."""
        if part.name in parent and part.allows(parent[part.name], taken):
            return parent[part.name]
        return part.draw(taken, rng.randrange)

    def _other(self, part: Choosing, taken: Decisions, old: Value, rng: Random) -> Value:
        """A different value; of numbers every second time a near one."""
        if isinstance(part, Some):
            return _swapped(part, taken, old, rng)
        domain = part.domain(taken)
        if part.numeric and old in domain and rng.random() < 0.5:
            near = max(1, len(domain) // 10)
            place = domain.index(old)
            around = domain[max(0, place - near) : place + near + 1]
            domain = around if len(around) > 1 else domain
        others = [value for value in domain if value != old]
        return rng.choice(others) if others else self._kept(part, taken, {part.name: old}, rng)


class _DeadEnd(Exception):  # not an error: a bound left nothing to choose
    pass


def _swapped(part: Some, taken: Decisions, old: Value, rng: Random) -> Value:
    """Another subset: mostly one option in place of one."""
    assert isinstance(old, tuple)
    missing = [i for i in range(len(part.inner)) if i not in old]
    if old and missing and rng.random() < 0.7:
        gone = rng.choice(old)
        return tuple(sorted({*old, rng.choice(missing)} - {gone}))
    while (found := part.draw(taken, rng.randrange)) == old and len(part.sizes) + len(missing) > 1:
        pass
    return found
