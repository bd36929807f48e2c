"""What a section of the page is, and which there are, in order.

A section is one file in ``sections/``: an ``*_info`` function that computes, and one that draws
what it computed, decorated with ``@section``. To add one, write the file.
"""

from collections.abc import Callable
from dataclasses import dataclass

from formwright.registry import Declared
from formwright.report.html import Safe
from formwright.report.material import Material

Html = Callable[[Material], Safe | None]

# From top to bottom, by id; what is not named here, as those of installed packages, stands at "".
_ORDER = (
    "result",
    "recommended",
    "finals",
    "curves",
    "students",
    "found",
    "idea",
    "ancestry",
    "hurdles",
    "words",
    "progress",
    "selected",
    "shares",
    "pruning",
    "scored",
    "shrinking",
    "gates",
    "members",
    "lineage",
    "learned",
    "belief",
    "latencies",
    "",
    "all",
    "failures",
    "cost",
    "repeat",
)


@dataclass(frozen=True)
class Section:
    """One part of the page.

    Args:
        id: Where links lead.
        title: Stands above it and in the contents; empty for the head of the page.
        html: Its content; None leaves the section out.
    """

    id: str
    title: str
    html: Html


_SECTIONS: Declared[Section] = Declared(
    "section", "formwright.sections", "formwright.report.sections"
)


def section(id: str, title: str) -> Callable[[Html], Html]:
    """Decorate the function that draws a section."""
    return _SECTIONS.declare(id, lambda html: Section(id, title, html))


def sections() -> list[Section]:
    """All of them, in the order of the page."""
    found = (made for _, made in _SECTIONS.items())
    return sorted(found, key=lambda s: _ORDER.index(s.id if s.id in _ORDER else ""))
