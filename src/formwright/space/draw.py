"""A space as text: its size, and every decision with what it may be."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from formwright.arch.layer import Residual
from formwright.arch.mechanism import Mechanism
from formwright.arch.node import Node
from formwright.arch.writer import write
from formwright.space.choice import Choice, Derived, Repeat, raw_fields
from formwright.space.choosing import Choosing, Copies, May, Number, One, Some

if TYPE_CHECKING:
    from formwright.space.tree import TreeSpace

_NUMBERED = re.compile(r"(\D+)(\d+)")


def draw_space(space: "TreeSpace") -> str:
    """The outline of a space; decisions that are alike in every layer stand on one line."""
    lines = [f"{space.name}: {short_number(space.size())} members"]
    rows = list(_rows(space))
    room = max(len(name) for name, _ in rows) if rows else 0
    lines += [f"  {name:{room}}  {meaning}" for name, meaning in rows]
    lines += [f"  only if {constraint.describe()}" for constraint in space.constraints]
    return "\n".join(lines)


def meaning(choice: Choosing) -> str:
    """What a decision may be, in words."""
    if isinstance(choice, Copies):
        assert isinstance(choice.choice, Repeat)
        which = choice.choice.which
        words = f"{choice.values[0]} to {choice.values[-1]}"
        how = {"first": "", "spread": ", spread evenly", "to_last": ", spread evenly to the last"}
        return words + (how[which] if isinstance(which, str) else ", by a table of copies")
    if isinstance(choice, Number):
        declared = choice.choice
        words = f"{_plain(choice.values[0])} to {_plain(choice.values[-1])}"
        if len(choice.values) > 1:
            words += f" in steps of {_plain(getattr(declared, 'step', 1))}"
        return words + (f", above {choice.above:g} x {choice.of}" if choice.of else "")
    options: tuple[Any, ...] = getattr(choice.choice, "options", ())
    if isinstance(choice, Some):
        shown = ", ".join(map(option_words, options))
        few, many = choice.sizes[0], choice.sizes[-1]
        return f"{few if few == many else f'{few} to {many}'} of: {shown}"
    if isinstance(choice, May):
        return f"{option_words(getattr(choice.choice, 'option', None))}, or nothing"
    assert isinstance(choice, One)
    return ", ".join(map(option_words, options))


def option_words(option: Any) -> str:
    """An option as short as it can be said: the kind of layer, or the value."""
    if isinstance(option, tuple):
        return " ".join(map(option_words, option)) or "nothing"
    if isinstance(option, Derived):
        return re.sub(r"(?<=[a-z])\d+", "", _following(option))  # the same in every copy
    if isinstance(option, Choice):
        return option.name
    if isinstance(option, Mechanism):
        return write(option)
    if isinstance(option, Node):
        return option_words(option.inner) if isinstance(option, Residual) else option.NAME
    return write(option)


def short_number(number: int) -> str:
    """A count as it is, or as a power of ten where it is long."""
    if number < 10**6:
        return f"{number:,}"
    digits = str(number)
    return f"{digits[0]}.{digits[1:3]}e{len(digits) - 1}"


def _rows(space: "TreeSpace") -> Iterator[tuple[str, str]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for name, choice in space.choices.items():
        found = _NUMBERED.fullmatch(name)
        groups.setdefault((found[1] if found else name, meaning(choice)), []).append(name)
    for (stem, words), names in groups.items():
        last = _NUMBERED.fullmatch(names[-1])
        shown = names[0] if len(names) == 1 else f"{names[0]}..{last[2] if last else stem}"
        yield shown, words
    yield from dict.fromkeys(_derived(space.declared))


def _derived(value: Any) -> Iterator[tuple[str, str]]:
    """Fields whose number follows from decisions, and how."""
    if isinstance(value, tuple):
        for item in value:
            yield from _derived(item)
    elif isinstance(value, Node):
        for key, item in raw_fields(value):
            if isinstance(item, Derived):
                yield key, _following(item)
            yield from _derived(item)


def _following(number: Derived) -> str:
    """A derived number in words: ``ratio x width``, ``width / 64, rounded down``."""
    of, ratio = (x.name if isinstance(x, Choice) else x for x in (number.of, number.ratio))
    if isinstance(ratio, str):
        words = f"{ratio} x {of}"
    elif ratio >= 1:
        words = f"{ratio:g} x {of}" if ratio > 1 else f"{of}"
    else:
        words = f"{of} / {1 / ratio:g}"
    if number.rounding != "nearest":
        words += f", rounded {number.rounding}"
    return words if number.multiple == 1 else f"{words}, a multiple of {number.multiple}"


def _plain(number: Any) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)
