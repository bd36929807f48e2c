"""Choices: what may stand in an architecture where a decision is still open.

A space is an architecture in the ordinary language with some of these in it:

    Stack([OneOf(f"layer{i}", [attention, feedforward, Identity()]) for i in range(32)])

Two choices of one name are one decision. That is how depth and per-layer sizes live together, and
how one width can stand in many places.
"""

import math
from collections.abc import Iterator
from typing import Any, Literal, get_args

from formwright.arch.layer import Stack
from formwright.arch.node import Node, Open, field_types, node
from formwright.errors import SpecError

Value = int | float | tuple[int, ...]  # what a decision stores: flat, and plain JSON
Rounding = Literal["nearest", "down", "up"]
LayerMap = Literal["first", "spread", "to_last"]

_MOST_NUMBERS = 100_000  # of one decision
_MOST_COPIES = 1_000  # of one unit
_CLOSE = 1e-9  # products of fractions that are whole numbers but for this are whole


class Choice(Open):
    """A decision with a name."""

    name: str

    @property
    def numbers(self) -> tuple[int | float, ...]:
        """Every number it may be; none where it is not between numbers."""
        return ()

    def __post_init__(self) -> None:
        if not self.name:
            raise SpecError(f"{self.NAME} needs a name, a word, but was given {self.name!r}.")


@node("one_of")
class OneOf(Choice):
    """Exactly one of the options. The decision is its index, or the option if it is a number."""

    name: str
    options: tuple[Any, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "options", _options(self))

    @property
    def numeric(self) -> bool:
        """Whether the options are rising numbers, so that near ones are alike."""
        plain = all(type(o) in (int, float) for o in self.options)
        return plain and list(self.options) == sorted(set(self.options))

    @property
    def numbers(self) -> tuple[int | float, ...]:
        """The options where they are rising numbers."""
        return self.options if self.numeric else ()


@node("some_of")
class SomeOf(Choice):
    """``least`` to ``most`` of the options, each at most once; it stands inside a list."""

    name: str
    options: tuple[Any, ...]
    least: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "options", _options(self))
        most = len(self.options) if self.most is None else self.most
        if not 0 <= self.least <= most <= len(self.options):
            raise SpecError(
                f"some_of {self.name!r} asks for {self.least} to {most} of "
                f"{len(self.options)} options; give 0 <= least <= most <= their number."
            )
        object.__setattr__(self, "most", most)


@node("maybe")
class Maybe(Choice):
    """The option or nothing: left out of a list, ``none`` in a field. The decision is 1 or 0."""

    name: str
    option: Any


@node("number")
class Span(Choice):
    """A number from ``low`` to ``high`` in steps.

    With ``above`` and ``of`` it must exceed ``above`` times the decision called ``of``, which
    must be open in every member of the space: inner widths above 1.7 times the model's.
    """

    name: str
    low: float
    high: float
    step: float = 1
    above: float = 0.0
    of: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.low <= self.high and self.step > 0):
            raise SpecError(
                f"number {self.name!r} from {self.low} to {self.high} in steps of {self.step} "
                "holds no number; give low <= high and a step above 0."
            )
        if (self.high - self.low) / self.step > _MOST_NUMBERS:
            raise SpecError(
                f"number {self.name!r} from {self.low} to {self.high} in steps of {self.step} "
                f"holds more than {_MOST_NUMBERS:,} numbers; take larger steps."
            )

    @property
    def numbers(self) -> tuple[int | float, ...]:
        """Every number it may take, before ``above`` is looked at."""
        count = int((self.high - self.low) / self.step + 1e-9) + 1
        return tuple(self.low + i * self.step for i in range(count))


@node("derived")
class Derived(Open):
    """A number that follows from a decision and is none itself: ``ratio`` times ``of``, rounded.

    ``of`` is the name of a number that is open in every member of the space, or the choice itself;
    ``ratio`` may be a choice as well. The result is a multiple of ``multiple``, at least one of it:

        FeedForward(Derived("width", OneOf("ratio", (2, 3, 4))))  # inner width
        Attention(Derived("width", 1 / 64, rounding="down"))      # heads of 64 channels each
    """

    of: Any
    ratio: Any = 1.0
    multiple: int = 1
    rounding: Rounding = "nearest"

    def __post_init__(self) -> None:
        if type(self.ratio) is int:  # one form, or ids would differ
            object.__setattr__(self, "ratio", float(self.ratio))
        named = isinstance(self.of, str) and self.of != ""
        follows = named or any(isinstance(factor, Choice) for factor in (self.of, self.ratio))
        numbers = (named or _is_number(self.of)) and _is_number(self.ratio)
        whole = type(self.multiple) is int and self.multiple >= 1
        if not (follows and numbers and whole and self.rounding in get_args(Rounding)):
            raise SpecError(
                f"derived(of={self.of!r}, ratio={self.ratio!r}, multiple={self.multiple!r}, "
                f"rounding={self.rounding!r}) gives no number; `of` is the name of a decision, the "
                "ratio is above 0 or a choice between such numbers, the multiple is at least 1, "
                f"and it is rounded {', '.join(get_args(Rounding))}."
            )

    def number(self, of: float, ratio: float) -> int:
        """The result for given factors."""
        share = of * ratio / self.multiple
        if not share < 1 << 63:
            raise SpecError(f"{ratio} times {of} is no size that anything can have.")
        match self.rounding:
            case "up":
                count = math.ceil(share - _CLOSE)
            case "down":
                count = math.floor(share + _CLOSE)
            case _:
                count = math.floor(share + 0.5 + _CLOSE)
        return max(1, count) * self.multiple


@node("repeat")
class Repeat(Choice):
    """``low`` to ``high`` copies of a unit, one after the other in a list.

    Choices inside get the copy's number behind their name (``heads`` becomes ``heads0``,
    ``heads1``, ...), except those named in ``shared``.

    ``which`` says which of the ``high`` copies stand for fewer: the ``first`` ones; ``spread``
    evenly, copy i * high // n for the i-th of n (AutoDistil, Xu et al. 2022,
    https://arxiv.org/abs/2201.12507); ``to_last`` the same from the other end, so that the last
    copy is always there; or, for each number from ``low`` on, the copies themselves.
    ``among`` says how many copies there are to stand for them, where that is more than ``high``: 4
    to 7 layers spread over the 12 of a teacher.
    """

    name: str
    unit: Any
    low: int
    high: int
    shared: tuple[str, ...] = ()
    which: LayerMap | tuple[tuple[int, ...], ...] = "first"
    among: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shared", tuple(self.shared))
        if not 0 <= self.low <= self.high:
            raise SpecError(
                f"repeat {self.name!r} from {self.low} to {self.high} is empty; "
                "give 0 <= low <= high."
            )
        if max(self.high, self.among or 0) > _MOST_COPIES:
            raise SpecError(
                f"repeat {self.name!r} has more than {_MOST_COPIES:,} copies; give fewer."
            )
        if self.among is not None and self.among < self.high:
            raise SpecError(
                f"repeat {self.name!r} needs up to {self.high} copies among {self.among}; give as "
                "many as there may be, or more."
            )
        if not isinstance(self.which, str):
            object.__setattr__(self, "which", tuple(map(tuple, self.which)))
        counts = [len(kept) for kept in self.kept]
        rising = all(list(kept) == sorted(set(kept)) for kept in self.kept)
        known = {index for kept in self.kept for index in kept} <= set(range(self.number))
        if counts != list(range(self.low, self.high + 1)) or not (rising and known):
            raise SpecError(
                f"repeat {self.name!r} cannot be read from which={self.which!r}; give first, "
                f"spread, to_last, or for each number from {self.low} to {self.high} so many "
                f"different copies from 0 to {self.number - 1} in rising order."
            )

    @property
    def number(self) -> int:
        """How many copies there are."""
        return self.high if self.among is None else self.among

    @property
    def kept(self) -> tuple[tuple[int, ...], ...]:
        """The copies that stand for each number of them, from ``low`` on."""
        numbers = range(self.low, self.high + 1)
        if self.which == "first":
            return tuple(tuple(range(n)) for n in numbers)
        if self.which == "spread":
            return tuple(tuple(i * self.number // n for i in range(n)) for n in numbers)
        if self.which == "to_last":
            last = self.number - 1
            rows = ((i * self.number // n for i in reversed(range(n))) for n in numbers)
            return tuple(tuple(last - i for i in row) for row in rows)
        return self.which

    def copies(self) -> tuple[Any, ...]:
        """The units, their choices renamed."""
        own = {choice.name for choice in choices_in(self.unit)} - set(self.shared)
        return tuple(renamed(self.unit, str(i), own) for i in range(self.number))


def stack_of(*layers: Any) -> Stack:
    """Layers one after the other, some of them open."""
    return Stack().replace(layers=layers)


def renamed(value: Any, suffix: str, names: set[str]) -> Any:
    """The same tree with ``suffix`` behind these names, also where others refer to them."""
    if isinstance(value, tuple):
        return tuple(renamed(item, suffix, names) for item in value)
    if not isinstance(value, Node):
        return value
    fields = {key: renamed(item, suffix, names) for key, item in raw_fields(value)}
    if isinstance(value, Choice | Derived):
        for key in ("name", "of"):
            if fields.get(key) in names:
                fields[key] += suffix
        if isinstance(value, Repeat):
            fields["shared"] = tuple(n + suffix if n in names else n for n in value.shared)
    return type(value)(**fields)


def choices_in(value: Any) -> Iterator[Choice]:
    """Every choice in a value, also those behind others."""
    if isinstance(value, Choice):
        yield value
    if isinstance(value, Node):
        for _, item in raw_fields(value):
            yield from choices_in(item)
    elif isinstance(value, tuple):
        for item in value:
            yield from choices_in(item)


def raw_fields(value: Node) -> Iterator[tuple[str, Any]]:
    """Field name and value, also of choices whose fields are not those of a layer."""
    yield from ((key, getattr(value, key)) for key in field_types(type(value)))


def _is_number(factor: Any) -> bool:
    """Whether a factor is above 0, or a choice between such numbers."""
    numbers = factor.numbers if isinstance(factor, Choice) else (factor,)
    return bool(numbers) and all(type(n) in (int, float) and n > 0 for n in numbers)


def _options(choice: OneOf | SomeOf) -> tuple[Any, ...]:
    options = tuple(tuple(o) if isinstance(o, list) else o for o in choice.options)
    if not options:
        raise SpecError(f"{choice.NAME} {choice.name!r} has no options; give at least one.")
    return options
