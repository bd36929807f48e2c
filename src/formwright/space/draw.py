"""A space as text: its size, and every decision with what it may be."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from formwright.arch.layer import Residual
from formwright.arch.node import Node
from formwright.arch.writer import write
from formwright.space.choosing import Choosing, Copies, May, Number, One, Some
from formwright.space.constraint import Constraint

_NUMBERED = re.compile(r"(\D+)(\d+)")


def outline(
    name: str, size: int, choices: Mapping[str, Choosing], constraints: Sequence[Constraint]
) -> str:
    """The outline of a space; decisions that are alike in every layer stand on one line."""
    lines = [f"{name}: {short_number(size)} members"]
    rows = list(_rows(choices))
    room = max(len(name) for name, _ in rows) if rows else 0
    lines += [f"  {name:{room}}  {meaning}" for name, meaning in rows]
    lines += [f"  only if {constraint.describe()}" for constraint in constraints]
    return "\n".join(lines)


def meaning(choice: Choosing) -> str:
    """What a decision may be, in words."""
    if isinstance(choice, Copies):
        return f"{choice.values[0]} to {choice.values[-1]}"
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
    if isinstance(option, Node):
        return option_words(option.inner) if isinstance(option, Residual) else option.NAME
    return write(option)


def short_number(number: int) -> str:
    """A count as it is, or as a power of ten where it is long."""
    if number < 10**6:
        return f"{number:,}"
    digits = str(number)
    return f"{digits[0]}.{digits[1:3]}e{len(digits) - 1}"


def _rows(choices: Mapping[str, Choosing]) -> Iterator[tuple[str, str]]:
    groups: dict[tuple[str, str], list[str]] = {}
    for name, choice in choices.items():
        found = _NUMBERED.fullmatch(name)
        groups.setdefault((found[1] if found else name, meaning(choice)), []).append(name)
    for (stem, words), names in groups.items():
        last = _NUMBERED.fullmatch(names[-1])
        shown = names[0] if len(names) == 1 else f"{names[0]}..{last[2] if last else stem}"
        yield shown, words


def _plain(number: Any) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)
