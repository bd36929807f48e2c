"""Spaces by name, and kinds of spaces by what restores them.

A named space is a function (or a class) that makes one; a kind is a class that reads back what it
wrote. A class that an installed package announces under ``formwright.spaces`` is both.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from formwright.arch.codec import from_data, to_data
from formwright.errors import FormatError, InputError
from formwright.registry import Registry
from formwright.space.constraint import Constraint
from formwright.space.space import Space

Maker = Callable[..., Space]
SpaceType = TypeVar("SpaceType", bound=type[Space])


@dataclass(frozen=True)
class NamedSpace:
    """A space that can be asked for by name."""

    name: str
    make: Maker
    paper: str = ""

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        return (inspect.getdoc(self.make) or "").partition("\n")[0]


class _Spaces(Registry[NamedSpace]):
    """Takes in a space, a class of spaces or a function that makes one."""

    def announce(self, name: str, thing: Any) -> None:
        if isinstance(thing, type) and issubclass(thing, Space):
            if not hasattr(thing, "kind"):
                space_kind(name)(thing)
        elif not callable(thing):
            raise InputError(f"{thing!r} is no space, and no function that makes one.")
        self.add(name, NamedSpace(name, thing))


KINDS: Registry[type[Space]] = Registry("kind of space", "")
SPACES = _Spaces("space", "formwright.spaces", "formwright.space")


def space_kind(name: str) -> Callable[[SpaceType], SpaceType]:
    """Make a class of spaces known, so that what it wrote can be read back."""

    def register(cls: SpaceType) -> SpaceType:
        KINDS.add(name, cls)
        cls.kind = name
        return cls

    return register


def published_space(name: str, paper: str = "") -> Callable[[Maker], Maker]:
    """Make a space known under ``name``."""

    def register(make: Maker) -> Maker:
        SPACES.add(name, NamedSpace(name, make, paper))
        return make

    return register


def space_names() -> list[str]:
    """Every named space, sorted."""
    return sorted(SPACES)


def named_space(name: str, **options: Any) -> Space:
    """The space called ``name``, with options where it has some."""
    return _made(SPACES.get(name), options)


def space_for(name: str, **known: Any) -> Space:
    """The space called ``name``, told what it asks for by the names of its arguments.

    Args:
        name: Of the space.
        known: What a search knows: ``frame`` and ``family`` of its task, ``width``.
    """
    entry = SPACES.get(name)
    asked = inspect.signature(entry.make).parameters
    return _made(entry, {key: value for key, value in known.items() if key in asked})


def _made(entry: NamedSpace, options: Mapping[str, Any]) -> Space:
    try:
        return entry.make(**options)
    except TypeError as error:
        raise InputError(f"Space {entry.name!r}: {error}.") from None


def space_data(space: Space) -> dict[str, Any]:
    """A space of any kind as plain JSON."""
    if not hasattr(space, "kind"):
        SPACES.load()  # an installed package may announce it
    if not hasattr(space, "kind"):
        raise InputError(
            f"{type(space).__name__} is of no known kind, so that a study could not be reopened; "
            'decorate the class with @space_kind("a name of its own").'
        )
    constraints = [to_data(constraint) for constraint in space.constraints]
    return {"kind": space.kind, **space.to_data(), "constraints": constraints}


def space_from_data(data: Any) -> Space:
    """The inverse of ``space_data``; anything else raises ``FormatError``."""
    if not isinstance(data, Mapping):
        raise FormatError("A space is a JSON object, and this is something else.")
    SPACES.load()  # which may bring kinds with them
    constraints = from_data(data.get("constraints", []), "constraints")
    if not isinstance(constraints, tuple):
        raise FormatError('"constraints" must be a list.')
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise FormatError('"constraints" must hold constraints only.')
    kind = KINDS.get(str(data.get("kind", "tree")))  # files of the first format name none
    try:
        return kind.from_data(data).limited(*constraints)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise FormatError(f"This space is damaged: {type(error).__name__}: {error}.") from None
    except RecursionError:
        raise FormatError("This space is damaged: it is nested too deep.") from None
