"""The form that a results file must have, and one sentence about the first place that differs.

A shape is a type (``float`` takes any finite number), a list with the shape of its items, an object
with the shapes of keys that must be there (others may be), ``Each`` for an object whose values
are alike, or ``Maybe`` for something that may also be null.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any


@dataclass(frozen=True)
class Each:
    """An object with any keys, whose values have one shape."""

    value: Any


@dataclass(frozen=True)
class Maybe:
    """A shape, or null."""

    value: Any


class Misfit(ValueError):
    """A results file is not what its row reads."""


def check(data: Any, shape: Any, where: str) -> None:
    """Raise ``Misfit`` at the first place where the data is not of the shape."""
    if isinstance(shape, Maybe):
        if data is not None:
            check(data, shape.value, where)
    elif isinstance(shape, list):
        _expect(isinstance(data, list), where, "a list", data)
        for number, item in enumerate(data):
            check(item, shape[0], f"{where}[{number}]")
    elif isinstance(shape, Each):
        _expect(isinstance(data, dict), where, "an object", data)
        for key, value in data.items():
            check(value, shape.value, f"{where}.{key}")
    elif isinstance(shape, Mapping):
        _expect(isinstance(data, dict), where, "an object", data)
        for key, inner in shape.items():
            _expect(key in data, where, f"an object with {key!r}", data)
            check(data[key], inner, f"{where}.{key}")
    elif shape is float:
        fine = isinstance(data, int | float) and not isinstance(data, bool) and isfinite(data)
        _expect(fine, where, "a finite number", data)
    else:
        fine = isinstance(data, shape) and (shape is bool or not isinstance(data, bool))
        _expect(fine, where, shape.__name__, data)


def _expect(fine: bool, where: str, what: str, data: Any) -> None:
    if not fine:
        given = ", ".join(data) if isinstance(data, dict) else repr(data)
        raise Misfit(f"{where} must be {what}, and is {given[:80]}.")
