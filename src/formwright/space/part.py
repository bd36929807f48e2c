"""A declaration made ready for use: a tree of parts that can be walked, built and counted fast.

Every generic operation of a space is one of four walks over the same parts: ``visit`` takes the
decisions that are in play, ``build`` makes the member they stand for, ``match`` reads them back
from a member, ``table`` counts them.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, Any

from formwright.space.choice import Value

if TYPE_CHECKING:
    from formwright.space.choosing import Choosing

Decisions = Mapping[str, Any]  # any JSON; those of a declared space are ``Value``s
Pick = Callable[["Choosing"], Value]
Row = frozenset[tuple[str, Value]]  # what shared decisions were taken to be
Table = dict[Row, int]  # how many ways there are, for each of those

_KEPT = 4096  # built pieces remembered per part
_FIRST: dict[Any, Any] = {}  # each of them, by itself
_SMALL = 3  # decisions of a part that is worth remembering


class Part(ABC):
    """A piece of a declaration."""

    names: tuple[str, ...] = ()  # decisions at or below this part, or that it follows from

    declared: Any = None  # what it was made from, where that is a node

    @cached_property
    def touched(self) -> frozenset[str]:
        """Decisions that the ways to decide below here depend on: also what bounds a number."""
        return frozenset(self.names).union(*(part.touched for part in self.below()))

    def below(self) -> tuple["Part", ...]:
        """The parts that it is made of."""
        return ()

    @property
    def every(self) -> tuple[Any, ...]:
        """Every value it may have in some member; of numbers only."""
        return ()

    @abstractmethod
    def visit(self, pick: Pick) -> None:
        """Call ``pick`` for every decision in play, those that others depend on first."""

    @abstractmethod
    def build(self, decisions: Decisions) -> Any:
        """The value these decisions stand for."""

    @abstractmethod
    def match(self, value: Any, taken: Decisions) -> Iterator[Decisions]:
        """Every way of taking decisions, beyond those taken, that builds ``value``."""

    @abstractmethod
    def table(self, shared: frozenset[str]) -> Table:
        """The number of ways to decide below here, by the decisions that others depend on too."""

    def items(self, decisions: Decisions) -> tuple[Any, ...]:
        """What the part puts into a list: usually one thing."""
        return (self.build(decisions),)

    def match_items(
        self, values: tuple[Any, ...], taken: Decisions
    ) -> Iterator[tuple[int, Decisions]]:
        """Ways to match the beginning of a list: how many items it takes, and the decisions."""
        if values:
            for found in self.match(values[0], taken):
                yield 1, found

    def choosings(self) -> Iterator["Choosing"]:
        """Every choice at or below this part."""
        yield from ()


class Fixed(Part):
    """A value with nothing open in it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @property
    def every(self) -> tuple[Any, ...]:
        return (self.value,)

    def visit(self, pick: Pick) -> None:
        pass

    def build(self, decisions: Decisions) -> Any:
        return self.value

    def match(self, value: Any, taken: Decisions) -> Iterator[Decisions]:
        if type(value) is type(self.value) and value == self.value:
            yield taken

    def items(self, decisions: Decisions) -> tuple[Any, ...]:
        return self.value if isinstance(self.value, tuple) else (self.value,)

    def match_items(
        self, values: tuple[Any, ...], taken: Decisions
    ) -> Iterator[tuple[int, Decisions]]:
        mine = self.items(taken)
        if values[: len(mine)] == mine:
            yield len(mine), taken

    def table(self, shared: frozenset[str]) -> Table:
        return {frozenset(): 1}


class Several(Part):
    """Parts that all count: the fields of a node or the items of a list."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts
        self.open = tuple(part for part in parts if part.names)
        self.names = tuple(dict.fromkeys(name for part in parts for name in part.names))
        self.ways: tuple[Part, ...] = tuple(  # what is to be visited, without the levels between
            way
            for part in self.open
            for way in (part.ways if isinstance(part, Several) else [part])
        )

    def visit(self, pick: Pick) -> None:
        for part in self.ways:
            part.visit(pick)

    def below(self) -> tuple[Part, ...]:
        return self.parts

    def table(self, shared: frozenset[str]) -> Table:
        return joined(self.open, shared)

    def choosings(self) -> Iterator["Choosing"]:
        for part in self.open:
            yield from part.choosings()


class Listed(Several):
    """A list; choices in it may stand for several items or for none.

    A list inside a list is laid into it, so that a choice can hold several layers.
    """

    def build(self, decisions: Decisions) -> Any:
        return tuple(item for part in self.parts for item in part.items(decisions))

    def match(self, value: Any, taken: Decisions) -> Iterator[Decisions]:
        if isinstance(value, tuple):
            yield from (
                found for used, found in self.match_items(value, taken) if used == len(value)
            )

    def items(self, decisions: Decisions) -> tuple[Any, ...]:
        return self.build(decisions)

    def match_items(
        self, values: tuple[Any, ...], taken: Decisions
    ) -> Iterator[tuple[int, Decisions]]:
        yield from match_front(self.parts, values, taken)


class Made(Several):
    """A node some of whose fields are open."""

    def __init__(self, make: type[Any], keys: tuple[str, ...], parts: tuple[Part, ...]) -> None:
        super().__init__(parts)
        self.make, self.keys = make, keys
        self.remembered: dict[tuple[Value | None, ...], Any] | None = (
            {} if len(self.names) <= _SMALL else None
        )

    def build(self, decisions: Decisions) -> Any:
        if self.remembered is None:
            return self._made(decisions)
        key = tuple(map(decisions.get, self.names))
        found = self.remembered.get(key)
        if found is None:
            if len(self.remembered) >= _KEPT:
                self.remembered.clear()
            found = self.remembered[key] = _one_of_equals(self._made(decisions))
        return found

    def _made(self, decisions: Decisions) -> Any:
        fields = (part.build(decisions) for part in self.parts)
        return self.make(**dict(zip(self.keys, fields, strict=True)))

    def match(self, value: Any, taken: Decisions) -> Iterator[Decisions]:
        if type(value) is not self.make:
            return
        fields = tuple(getattr(value, key) for key in self.keys)
        yield from match_fields(self.parts, fields, taken)


def _one_of_equals(value: Any) -> Any:
    """The first of all equal values, so that what one layer remembers serves every place."""
    if len(_FIRST) >= _KEPT:
        _FIRST.clear()
    return _FIRST.setdefault(value, value)


def joined(parts: Sequence[Part], shared: frozenset[str], first: Table | None = None) -> Table:
    """The ways to decide several parts together: rows must agree on what they share.

    A decision is forgotten as soon as no part to come and nobody outside depends on it, so that
    tables stay small however many decisions there are.

    Args:
        parts: What is decided.
        shared: What matters outside.
        first: Ways that were counted before.
    """
    parts = _distinct(parts)
    left = Counter(name for part in parts for name in part.touched)
    counted: Table = first or {frozenset(): 1}
    known = {name for row in counted for name, _ in row}
    for part in parts:
        needed = {n for n in part.touched if n in shared or n in known or left[n] > 1}
        counted = _join(counted, part.table(frozenset(needed)))
        left -= Counter(part.touched)
        known = {n for n in known | needed if left[n] > 0 or n in shared}
        counted = _forgetting(counted, known)
    return _forgetting(counted, shared)


def _distinct(parts: Sequence[Part]) -> list[Part]:
    """Without repeats: what equals another part has no decision that is not taken there."""
    found = {id(part) if part.declared is None else part.declared: part for part in parts}
    return list(found.values())


def _forgetting(table: Table, kept: Set[str]) -> Table:
    """The same ways by fewer decisions."""
    if all(name in kept for row in table for name, _ in row):
        return table
    total: Table = {}
    for row, count in table.items():
        key = frozenset(pair for pair in row if pair[0] in kept)
        total[key] = total.get(key, 0) + count
    return total


def _join(a: Table, b: Table) -> Table:
    if len(a) == len(b) == 1 and not any((*a, *b)):
        return {frozenset(): a[frozenset()] * b[frozenset()]}
    total: Table = {}
    for left, ways in a.items():
        known = dict(left)
        for right, more in b.items():
            if all(known.get(name, value) == value for name, value in right):
                row = left | right
                total[row] = total.get(row, 0) + ways * more
    return total


def match_fields(
    parts: tuple[Part, ...], values: tuple[Any, ...], taken: Decisions
) -> Iterator[Decisions]:
    """Ways to match each value by its own part."""
    if not parts:
        yield taken
        return
    for found in parts[0].match(values[0], taken):
        yield from match_fields(parts[1:], values[1:], found)


def match_front(
    parts: tuple[Part, ...], values: tuple[Any, ...], taken: Decisions
) -> Iterator[tuple[int, Decisions]]:
    """Ways to match the beginning of a list by all the parts: items used, decisions taken."""
    if not parts:
        yield 0, taken
        return
    for used, found in parts[0].match_items(values, taken):
        for more, final in match_front(parts[1:], values[used:], found):
            yield used + more, final
