"""What a supernet went through, for the report: its trace, and what options are called.

Where several searches competed, the trace names the method and the folder of each. Whatever is
missing or damaged is left out: a report must come out of a study that was cut off at any point.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.layer import Layer, Residual
from formwright.arch.site import Site
from formwright.arch.writer import letter_of
from formwright.draw.words import words
from formwright.errors import FormwrightError
from formwright.report.material import Material
from formwright.space import TreeSpace, space_from_data
from formwright.space.choosing import Choosing, Copies, May, Number, One, Some
from formwright.space.draw import option_words
from formwright.trace import FILE, Look, Rows, Stage, Trace, is_number

FOLDER = "supernet"  # inside the study's
# head3, head3.1 (a part of it), mean3a (one of two)
_NUMBERED = re.compile(r"(?P<stem>.*?)[_-]?(?P<number>\d+)(\.\d+|[a-z])?", re.DOTALL)
_MOST_LOOKS = 160  # points of a line


@dataclass(frozen=True)
class Group:
    """Decisions with the same options, such as those of all layers.

    Args:
        title: What their names have in common.
        names: The decisions, in order.
        options: What each option is called.
        letters: A letter for each option where it is a layer; else empty.
        single: Whether exactly one option is taken.
    """

    title: str
    names: tuple[str, ...]
    options: tuple[str, ...]
    letters: tuple[str, ...]
    single: bool


@dataclass(frozen=True)
class Seen:
    """All that a folder's trace tells of a supernet.

    Args:
        looks: By step, thinned where there are many.
        stages: In order.
        prices: What each option costs.
        space: What was searched; None where it cannot be read.
    """

    looks: Sequence[Look] = ()
    stages: Sequence[Stage] = ()
    prices: Rows = field(default_factory=dict)
    space: TreeSpace | None = None

    def groups(self, counts: Mapping[str, int]) -> list[Group]:
        """Decisions that are alike together; ``counts`` says how many options each has."""
        found: dict[tuple[Any, ...], list[str]] = {}
        for name, count in counts.items():
            key = (stem_of(name), *self._described(name, count))
            found.setdefault(key, []).append(name)
        return [Group(key[0], tuple(names), *key[1:]) for key, names in found.items()]

    def _described(
        self, name: str, count: int
    ) -> tuple[tuple[str, ...], tuple[str, ...], bool | None]:
        choice = self.space.choices.get(name) if self.space is not None else None
        width = _width(self.space)
        options = _options(choice)
        said = tuple(_said(option, width) for option in options)
        if len(said) != count:
            said, options = tuple(f"option {i + 1}" for i in range(count)), ()
        letters = tuple(_letter(option) for option in options)
        single = isinstance(choice, One) and not choice.numeric
        return said, letters if all(letters) and letters else (), single


@dataclass(frozen=True)
class Method:
    """One of the searches of a study.

    Args:
        trace: What it left.
        name: What trials that it found are noted by; empty where there was but one search.
        price: What its options were multiplied with, where there was a choice of prices.
    """

    trace: Seen
    name: str = ""
    price: float | None = None


def trace_of(material: Material) -> Seen:
    """What the supernet of a study left; empty where it had none."""
    return Seen() if material.folder is None else _read(material.folder / FOLDER)


def methods_of(material: Material) -> list[Method]:
    """What each method left, where several competed; one without a name otherwise."""
    found = [] if material.folder is None else list(_methods(material.folder))
    return found or [Method(trace_of(material))]


def stem_of(name: str) -> str:
    """A name without the number at its end, or that of a part behind it."""
    found = _NUMBERED.fullmatch(name)
    return found["stem"] if found and found["stem"] else name


def place_of(name: str) -> str:
    """The number at the end of a name, counted from 1; else the name."""
    found = _NUMBERED.fullmatch(name)
    return str(int(found["number"]) + 1) if found and found["stem"] else name


# --- reading ----------------------------------------------------------------------------


def _methods(study: Path) -> Iterator[Method]:
    top = Trace(study / FOLDER)
    named = [line for line in top.lines("found") if isinstance(line.get("method"), str)]
    for name, line in sorted({line["method"]: line for line in named}.items()):
        place, price = line.get("folder"), line.get("price", "")
        folder = _inside(study / FOLDER, study / place) if isinstance(place, str) else None
        if folder is not None:
            seen = _read(folder)
            trace = replace(seen, prices=seen.prices or top.prices())
            yield Method(trace, name, float(price) if is_number(price) else None)


def _inside(whole: Path, part: Path) -> Path | None:
    """A folder, if it lies in another; what a file names elsewhere is not read."""
    try:
        found = part.resolve()
        return found if found.is_relative_to(whole.resolve()) else None
    except (OSError, ValueError, RuntimeError):  # no name of a file, or links in a circle
        return None


def _read(folder: Path) -> Seen:
    """Several sections ask; the file is read once as long as it is the same."""
    try:
        known = (folder / FILE).stat()
    except OSError:
        return Seen()
    return _seen(folder, known.st_mtime_ns, known.st_size)


@lru_cache(maxsize=8)
def _seen(folder: Path, *stamp: int) -> Seen:
    trace = Trace(folder)
    return Seen(
        looks=_thinned(trace.looks()),
        stages=trace.stages(),
        prices=trace.prices(),
        space=_space(trace.last("space")),
    )


def _space(data: Any) -> TreeSpace | None:
    try:
        found = space_from_data(data["space"])
    except (FormwrightError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return found if isinstance(found, TreeSpace) else None


def _thinned(looks: list[Look]) -> list[Look]:
    """Evenly fewer, the first and the last among them."""
    if len(looks) <= _MOST_LOOKS:
        return looks
    last = len(looks) - 1
    return [looks[round(i * last / (_MOST_LOOKS - 1))] for i in range(_MOST_LOOKS)]


# --- what options are called ------------------------------------------------------------


def _options(choice: Choosing | None) -> tuple[Any, ...]:
    match choice:
        case Number() | Copies():
            return choice.values
        case May():
            return ("off", getattr(choice.choice, "option", "on"))
        case One() | Some():
            return tuple(getattr(choice.choice, "options", ()))
    return ()


def _said(option: Any, width: int) -> str:
    """An option in words; layers by what they do, which tells kinds of attention apart."""
    if isinstance(option, str):
        return option
    inner = option.inner if isinstance(option, Residual) else option
    if isinstance(inner, Layer):
        try:
            return words(inner, Site(width=width)).title
        except (FormwrightError, TypeError):  # a layer whose sizes are open has no words
            pass
    return option_words(option)


def _letter(option: Any) -> str:
    return letter_of(option) if isinstance(option, Layer) else ""


def _width(space: TreeSpace | None) -> int:
    """Of the stream; 1 where it is itself a decision, or there is none."""
    declared = space.declared if space is not None else None
    width: Any = declared.backbone.width if isinstance(declared, Architecture) else 1
    return width if isinstance(width, int) else 1
