"""Named spaces: one file per published space, and what the command line calls it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from formwright.errors import InputError, UnknownName
from formwright.space.tree import TreeSpace

Maker = Callable[..., TreeSpace]

_FILES = ("lts", "order", "rich")
_SPACES: dict[str, "NamedSpace"] = {}


@dataclass(frozen=True)
class NamedSpace:
    """A space that can be asked for by name."""

    name: str
    make: Maker
    paper: str

    @property
    def summary(self) -> str:
        """What it is, in one line."""
        return (self.make.__doc__ or "").strip().splitlines()[0]


def published_space(name: str, paper: str = "") -> Callable[[Maker], Maker]:
    """Make a space known under ``name``."""

    def register(make: Maker) -> Maker:
        if name in _SPACES:
            raise InputError(f"Space {name!r} is already declared.")
        _SPACES[name] = NamedSpace(name, make, paper)
        return make

    return register


def space_names() -> list[str]:
    """Every named space, sorted."""
    _load()
    return sorted(_SPACES)


def space_entry(name: str) -> NamedSpace:
    """The entry of a named space."""
    _load()
    if name not in _SPACES:
        raise UnknownName("space", name, _SPACES)
    return _SPACES[name]


def named_space(name: str, **options: Any) -> TreeSpace:
    """The space called ``name``, with options where it has some."""
    entry = space_entry(name)
    try:
        return entry.make(**options)
    except TypeError as error:
        raise InputError(f"Space {name!r}: {error}.") from None


def _load() -> None:
    for file in _FILES:
        import_module(f"formwright.space.{file}")
