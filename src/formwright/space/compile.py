"""From a declaration, an architecture with choices in it, to parts."""

from collections.abc import Iterator
from typing import Any

from formwright.arch.node import Node
from formwright.errors import SpecError
from formwright.space.choice import Choice, Derived, Maybe, OneOf, Repeat, SomeOf, Span, raw_fields
from formwright.space.choosing import (
    Choosing,
    Copies,
    Elsewhere,
    Following,
    May,
    Number,
    One,
    Some,
)
from formwright.space.part import Fixed, Listed, Made, Part


def compiled(value: Any) -> Part:
    """The part for a value of a declaration."""
    if isinstance(value, Choice):
        return _choosing(value)
    if isinstance(value, Derived):
        of = Elsewhere(value.of) if isinstance(value.of, str) else compiled(value.of)
        return Following(value, (of, compiled(value.ratio)))
    if isinstance(value, tuple | list):
        listed = Listed(tuple(compiled(item) for item in value))
        return listed if listed.names else Fixed(listed.build({}))
    if isinstance(value, Node):
        fields = dict(raw_fields(value))
        made = Made(type(value), tuple(fields), tuple(compiled(v) for v in fields.values()))
        made.declared = value
        return made if made.names else Fixed(value)
    return Fixed(value)


def _choosing(choice: Choice) -> Choosing:
    match choice:
        case OneOf():
            return One(choice, tuple(compiled(option) for option in choice.options))
        case SomeOf():
            return Some(choice, tuple(compiled(option) for option in choice.options))
        case Maybe():
            return May(choice, (compiled(choice.option),))
        case Repeat():
            return Copies(choice, tuple(compiled(unit) for unit in choice.copies()))
        case Span():
            return Number(choice)
    raise TypeError(f"{type(choice).__name__} is a kind of choice without a part")


def linked(root: Part) -> dict[str, Choosing]:
    """Every decision by name, numbers joined to the decisions that bound them or give them."""
    from_name: dict[str, Choosing] = {}
    for found in root.choosings():
        known = from_name.setdefault(found.name, found)
        if type(known) is not type(found):
            raise SpecError(f"Two choices called {found.name!r} are of different kinds.")
    for part in _walk(root):
        if isinstance(part, Number) and part.of is not None:
            part.driver = from_name.get(part.of)
            if part.driver is not None and not part.driver.numeric:
                raise SpecError(
                    f"The number {part.name!r} is bounded by {part.of!r}, which is no number."
                )
        elif isinstance(part, Elsewhere):
            part.driver = from_name.get(part.name)
            if part.driver is None or not part.driver.numeric:
                raise SpecError(
                    f"A derived number follows from {part.name!r}, which is no number that is open "
                    "in the space; name one that is."
                )
    for found in from_name.values():
        _check_circle(found)
    return from_name


def _check_circle(found: Choosing) -> None:
    seen, driver = {found.name}, getattr(found, "driver", None)
    while driver is not None:
        if driver.name in seen:
            raise SpecError(f"The number {found.name!r} is bounded by itself, in the end.")
        seen.add(driver.name)
        driver = getattr(driver, "driver", None)


def _walk(part: Part) -> Iterator[Part]:
    """A part and all below it."""
    yield part
    for below in part.below():
        yield from _walk(below)
