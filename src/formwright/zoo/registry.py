"""Where published architectures are kept, by name.

One file per family declares its entries with ``@published``; nothing else needs to be edited
but the list of families below. Families are imported when the first entry is asked for, and an
architecture is built only when its entry's ``build`` is called.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from formwright.arch import Architecture
from formwright.registry import Declared

Builder = Callable[[], Architecture]

_FAMILIES = (
    "transformer_xl",
    "bert",
    "gpt2",
    "llama",
    "lite",
    "autodistil",
    "nas_bert",
    "evolved",
    "primer",
    "dartformer",
    "autobert_zero",
)
_ENTRIES: Declared["Entry"] = Declared(
    "zoo entry",
    "formwright.zoo",
    "formwright.zoo",
    _FAMILIES,
    listing="Run `formwright zoo` to list all of them.",
)


@dataclass(frozen=True)
class Paper:
    """Where an architecture was published."""

    title: str
    url: str


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """One published architecture.

    Attributes:
        name: What it is called here, for example ``par-base``.
        system: The method or family it belongs to.
        paper: Where it was published.
        build: Makes the architecture.
        published_params: The number of parameters as published, in print or by counting the
            released weights; None where nothing is published for exactly this shape.
        reported: Other figures as published, with unit and data set in the key.
        note: What is inferred, and how published figures differ from what we count.
    """

    name: str
    system: str
    paper: Paper
    build: Builder
    published_params: int | None
    reported: Mapping[str, float | str]
    note: str


def published(
    name: str,
    *,
    system: str,
    paper: Paper,
    params: int | None = None,
    reported: Mapping[str, float | str] | None = None,
    note: str = "",
) -> Callable[[Builder], Builder]:
    """Declare the decorated function as the builder of the entry called ``name``."""
    return _ENTRIES.declare(
        name,
        lambda build: Entry(
            name=name,
            system=system,
            paper=paper,
            build=build,
            published_params=params,
            reported=MappingProxyType(dict(reported or {})),
            note=note,
        ),
    )


def names() -> list[str]:
    """Every name, family by family."""
    return list(_ENTRIES)


def get(name: str) -> Entry:
    """The entry called ``name``."""
    return _ENTRIES.get(name)


def entries() -> Iterator[Entry]:
    """Every entry, family by family."""
    return (entry for _, entry in _ENTRIES.items())
