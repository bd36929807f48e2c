"""Decisions as parts: one class for each kind of choice."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import combinations, product
from typing import Any

from formwright.errors import SpecError
from formwright.space.choice import Choice, Derived, Maybe, OneOf, Repeat, SomeOf, Span, Value
from formwright.space.part import (
    Decisions,
    Part,
    Pick,
    Several,
    Table,
    joined,
    match_fields,
    match_front,
)


class Choosing(Part):
    """A decision: what it may be, and what lies behind each answer."""

    numeric = False

    def __init__(self, choice: Choice, inner: tuple[Part, ...] = ()) -> None:
        self.choice, self.name, self.inner = choice, choice.name, inner
        below = (name for part in inner for name in part.names)
        self.names = tuple(dict.fromkeys((self.name, *below)))

    @abstractmethod
    def domain(self, decisions: Decisions) -> tuple[Value, ...]:
        """Every value it may take, given what was decided before."""

    def chosen(self, value: Value) -> tuple[Part, ...]:
        """The parts in play when the decision is ``value``."""
        return ()

    def draw(self, decisions: Decisions, below: Callable[[int], int]) -> Value:
        """One value at random; ``below(n)`` gives a whole number under n."""
        domain = self.domain(decisions)
        if not domain:
            raise SpecError(
                f"{self.choice.NAME} {self.name!r} has no value left under {dict(decisions)}."
            )
        return domain[below(len(domain))]

    def allows(self, value: Value, decisions: Decisions) -> bool:
        """Whether the decision may be ``value``."""
        return value in self.domain(decisions)

    @property
    def every(self) -> tuple[Value, ...]:
        """Every value it may take in some member."""
        return self.domain({})

    def decide(self, pick: Pick) -> Value:
        """Take this decision alone, after those that it depends on."""
        return pick(self)

    def visit(self, pick: Pick) -> None:
        for part in self.chosen(self.decide(pick)):
            part.visit(pick)

    def build(self, decisions: Decisions) -> Any:
        items = self.items(decisions)
        if len(items) != 1:
            raise SpecError(
                f"The choice {self.name!r} stands for {len(items)} things where one must stand."
            )
        return items[0]

    def match(self, value: Any, taken: Decisions) -> Iterator[Decisions]:
        for used, found in self.match_items((value,), taken):
            if used == 1:
                yield found

    def match_items(
        self, values: tuple[Any, ...], taken: Decisions
    ) -> Iterator[tuple[int, Decisions]]:
        answers = (taken[self.name],) if self.name in taken else self.every
        for answer in answers:
            parts = self.chosen(answer)
            yield from match_front(parts, values, {**taken, self.name: answer})

    def below(self) -> tuple[Part, ...]:
        return self.inner

    def table(self, shared: frozenset[str]) -> Table:
        total: Table = {}
        for value in self.every:
            mine: Table = {frozenset({(self.name, value)}): 1}
            for row, count in joined(self.chosen(value), shared, mine).items():
                total[row] = total.get(row, 0) + count
        return total

    def choosings(self) -> Iterator["Choosing"]:
        yield self
        for part in self.inner:
            yield from part.choosings()


class One(Choosing):
    """One of several options."""

    def __init__(self, choice: OneOf, inner: tuple[Part, ...]) -> None:
        super().__init__(choice, inner)
        self.numeric = choice.numeric
        values = choice.options if self.numeric else range(len(choice.options))
        self.values: tuple[Value, ...] = tuple(values)
        self.behind = dict(zip(self.values, self.inner, strict=True))

    def domain(self, decisions: Decisions) -> tuple[Value, ...]:
        return self.values

    def chosen(self, value: Value) -> tuple[Part, ...]:
        if value not in self.behind:
            raise SpecError(
                f"{value!r} is no option of the choice {self.name!r}; it has {len(self.behind)}. "
                "Choices of one name are one decision, so they have the same options."
            )
        return (self.behind[value],)

    def items(self, decisions: Decisions) -> tuple[Any, ...]:
        return self.behind[decisions[self.name]].items(decisions)


class Some(Choosing):
    """Several of several options; the decision is the tuple of their indices."""

    def __init__(self, choice: SomeOf, inner: tuple[Part, ...]) -> None:
        super().__init__(choice, inner)
        assert choice.most is not None  # settled by the choice
        self.sizes = range(choice.least, choice.most + 1)

    def domain(self, decisions: Decisions) -> tuple[Value, ...]:
        indices = range(len(self.inner))
        return tuple(c for size in self.sizes for c in combinations(indices, size))

    def draw(self, decisions: Decisions, below: Callable[[int], int]) -> Value:
        """Subsets are too many to list: draw a size by its share, then a subset of it."""
        total = len(self.inner)
        left = below(sum(math.comb(total, size) for size in self.sizes))
        for size in self.sizes:
            if left < math.comb(total, size):
                break
            left -= math.comb(total, size)
        pool = list(range(total))
        return tuple(sorted(pool.pop(below(len(pool))) for _ in range(size)))

    def allows(self, value: Value, decisions: Decisions) -> bool:
        if not isinstance(value, tuple) or len(value) not in self.sizes:
            return False
        return list(value) == sorted(set(value)) and set(value) <= set(range(len(self.inner)))

    def chosen(self, value: Value) -> tuple[Part, ...]:
        assert isinstance(value, tuple)
        return tuple(self.inner[i] for i in value)

    def items(self, decisions: Decisions) -> tuple[Any, ...]:
        parts = self.chosen(decisions[self.name])
        return tuple(item for part in parts for item in part.items(decisions))

    def build(self, decisions: Decisions) -> Any:
        return self.items(decisions)

    def table(self, shared: frozenset[str]) -> Table:
        if self.name not in shared and all(not part.names for part in self.inner):
            return {frozenset(): sum(math.comb(len(self.inner), size) for size in self.sizes)}
        return super().table(shared)

    def match_items(
        self, values: tuple[Any, ...], taken: Decisions
    ) -> Iterator[tuple[int, Decisions]]:
        """Options in order, each taken or left: no list of all subsets is needed."""
        if self.name in taken:
            yield from super().match_items(values, taken)
            return
        yield from self._match_from(0, (), values, taken)

    def _match_from(
        self, index: int, picked: tuple[int, ...], values: tuple[Any, ...], taken: Decisions
    ) -> Iterator[tuple[int, Decisions]]:
        if len(picked) in self.sizes:
            yield 0, {**taken, self.name: picked}
        if len(picked) == self.sizes[-1]:
            return
        for i in range(index, len(self.inner)):
            for used, found in self.inner[i].match_items(values, taken):
                rest = self._match_from(i + 1, (*picked, i), values[used:], found)
                for more, final in rest:
                    yield used + more, final


class May(Choosing):
    """Something or nothing."""

    def __init__(self, choice: Maybe, inner: tuple[Part, ...]) -> None:
        super().__init__(choice, inner)

    def domain(self, decisions: Decisions) -> tuple[Value, ...]:
        return (0, 1)

    def chosen(self, value: Value) -> tuple[Part, ...]:
        return self.inner if value else ()

    def items(self, decisions: Decisions) -> tuple[Any, ...]:
        return self.inner[0].items(decisions) if decisions[self.name] else ()

    def build(self, decisions: Decisions) -> Any:
        return self.inner[0].build(decisions) if decisions[self.name] else None

    def match(self, value: Any, taken: Decisions) -> Iterator[Decisions]:
        if value is None and taken.get(self.name, 0) == 0:
            yield {**taken, self.name: 0}
        yield from super().match(value, taken)


class Number(Choosing):
    """A number from a range, perhaps bounded by another decision."""

    numeric = True

    def __init__(self, choice: Span) -> None:
        super().__init__(choice)
        self.of, self.above = choice.of, choice.above
        self.values: tuple[int | float, ...] = choice.numbers
        self.driver: Choosing | None = None  # set by the space, which knows all names
        self._above: dict[Value, tuple[Value, ...]] = {}

    def domain(self, decisions: Decisions) -> tuple[Value, ...]:
        if self.of is None or self.of not in decisions:
            return self.values
        bound = decisions[self.of]
        if bound not in self._above:
            assert not isinstance(bound, tuple)
            self._above[bound] = tuple(v for v in self.values if v > self.above * bound)
        return self._above[bound]

    def decide(self, pick: Pick) -> Value:
        if self.driver is not None:
            self.driver.decide(pick)
        return pick(self)

    def items(self, decisions: Decisions) -> tuple[Any, ...]:
        return (decisions[self.name],)

    def match_items(
        self, values: tuple[Any, ...], taken: Decisions
    ) -> Iterator[tuple[int, Decisions]]:
        first: Any = values[0] if values else None
        fits = type(first) in (int, float) and first in self.values
        if fits and taken.get(self.name, first) == first:
            yield 1, {**taken, self.name: first}

    @cached_property
    def touched(self) -> frozenset[str]:
        return frozenset({self.name} if self.of is None else {self.name, self.of})

    def table(self, shared: frozenset[str]) -> Table:
        if self.driver is None:
            return super().table(shared)
        total: Table = {}
        assert self.of is not None
        for bound in self.driver.every:
            for value in self.domain({self.of: bound}):
                mine = {self.of: bound, self.name: value}
                row = frozenset((name, at) for name, at in mine.items() if name in shared)
                total[row] = total.get(row, 0) + 1
        return total


class Elsewhere(Part):
    """What a decision that stands in another place was taken to be."""

    def __init__(self, name: str) -> None:
        self.name, self.names = name, (name,)
        self.driver: Choosing | None = None  # set by the space, which knows all names

    @property
    def every(self) -> tuple[Value, ...]:
        """Every value it may have in some member."""
        assert self.driver is not None
        return self.driver.every

    def visit(self, pick: Pick) -> None:
        assert self.driver is not None
        self.driver.decide(pick)

    def build(self, decisions: Decisions) -> Any:
        return decisions[self.name]

    def match(self, value: Any, taken: Decisions) -> Iterator[Decisions]:
        if taken.get(self.name, value) == value:
            yield {**taken, self.name: value}

    def table(self, shared: frozenset[str]) -> Table:
        return {frozenset(): 1}  # it is counted where it stands


class Following(Several):
    """A number that follows from others."""

    def __init__(self, derived: Derived, parts: tuple[Part, Part]) -> None:
        super().__init__(parts)
        self.derived = derived

    def build(self, decisions: Decisions) -> Any:
        of, ratio = (part.build(decisions) for part in self.parts)
        return self.derived.number(of, ratio)

    def match(self, value: Any, taken: Decisions) -> Iterator[Decisions]:
        if type(value) is not int:
            return
        for factors in product(*(part.every for part in self.parts)):
            if self.derived.number(*factors) == value:
                yield from match_fields(self.parts, factors, taken)


class Copies(Choosing):
    """Some of a row of units: as many as the decision says."""

    numeric = True

    def __init__(self, choice: Repeat, inner: tuple[Part, ...]) -> None:
        super().__init__(choice, inner)
        self.values: tuple[Value, ...] = tuple(range(choice.low, choice.high + 1))
        self.kept = dict(zip(self.values, choice.kept, strict=True))

    def domain(self, decisions: Decisions) -> tuple[Value, ...]:
        return self.values

    def chosen(self, value: Value) -> tuple[Part, ...]:
        return tuple(self.inner[index] for index in self.kept[value])

    def items(self, decisions: Decisions) -> tuple[Any, ...]:
        parts = self.chosen(decisions[self.name])
        return tuple(item for part in parts for item in part.items(decisions))

    def build(self, decisions: Decisions) -> Any:
        return self.items(decisions)
