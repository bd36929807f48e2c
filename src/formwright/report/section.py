"""What a section of the page is, and which there are, in order.

A section is one file in ``sections/``: an ``*_info`` function that computes, and one that draws
what it computed. To add one, write the file and name it below.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from formwright.report.html import Safe
from formwright.report.material import Material

_FILES = (
    "headline",
    "pareto",
    "progress",
    "selected",
    "shares",
    "pruning",
    "gates",
    "members",
    "lineage",
    "importance",
    "table",
    "failures",
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
    html: Callable[[Material], Safe | None]


def sections() -> list[Section]:
    """All of them, in the order of the page."""
    return [import_module(f"formwright.report.sections.{name}").SECTION for name in _FILES]
