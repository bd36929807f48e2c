"""Choices: what may stand in an architecture where a decision is still open.

A space is an architecture in the ordinary language with some of these in it:

    Stack([OneOf(f"layer{i}", [attention, feedforward, Identity()]) for i in range(32)])

Two choices of one name are one decision. That is how depth and per-layer sizes live together, and
how one width can stand in many places.
"""

from collections.abc import Iterator
from typing import Any

from formwright.arch.layer import Stack
from formwright.arch.node import Node, Open, field_types, node
from formwright.errors import SpecError

Value = int | float | tuple[int, ...]  # what a decision stores: flat, and plain JSON


class Choice(Open):
    """A decision with a name."""

    name: str

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

    @property
    def numbers(self) -> tuple[int | float, ...]:
        """Every number it may take, before ``above`` is looked at."""
        count = int((self.high - self.low) / self.step + 1e-9) + 1
        return tuple(self.low + i * self.step for i in range(count))


@node("repeat")
class Repeat(Choice):
    """``low`` to ``high`` copies of a unit, one after the other in a list.

    Choices inside get the copy's number behind their name (``heads`` becomes ``heads0``,
    ``heads1``, ...), except those named in ``shared``.
    """

    name: str
    unit: Any
    low: int
    high: int
    shared: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shared", tuple(self.shared))
        if not 0 <= self.low <= self.high:
            raise SpecError(
                f"repeat {self.name!r} from {self.low} to {self.high} is empty; "
                "give 0 <= low <= high."
            )

    def copies(self) -> tuple[Any, ...]:
        """The units, their choices renamed."""
        return tuple(renamed(self.unit, str(i), self.shared) for i in range(self.high))


def stack_of(*layers: Any) -> Stack:
    """Layers one after the other, some of them open."""
    return Stack().replace(layers=layers)


def renamed(value: Any, suffix: str, keep: tuple[str, ...]) -> Any:
    """The same tree with ``suffix`` behind the name of every choice in it, but those to keep."""
    if isinstance(value, tuple):
        return tuple(renamed(item, suffix, keep) for item in value)
    if not isinstance(value, Node):
        return value
    fields = {
        key: renamed(item, suffix, keep) for key, item in raw_fields(value) if key != "shared"
    }
    if isinstance(value, Choice) and value.name not in keep:
        fields["name"] = value.name + suffix
    return type(value)(**dict(raw_fields(value)) | fields)


def raw_fields(value: Node) -> Iterator[tuple[str, Any]]:
    """Field name and value, also of choices whose fields are not those of a layer."""
    yield from ((key, getattr(value, key)) for key in field_types(type(value)))


def _options(choice: OneOf | SomeOf) -> tuple[Any, ...]:
    options = tuple(tuple(o) if isinstance(o, list) else o for o in choice.options)
    if not options:
        raise SpecError(f"{choice.NAME} {choice.name!r} has no options; give at least one.")
    return options
