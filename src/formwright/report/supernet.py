"""What a supernet left behind, read for the report: gates over time, stages of pruning, prices.

The files are those of ``strategy.gradient.search`` and of the one-shot recipes. Where several
searches competed, each has a folder whose ``found.json`` names the method and the place of its
files. Whatever is missing or damaged is left out: a report must come out of a study that was cut
off at any point.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.layer import Layer, Residual
from formwright.arch.site import Site
from formwright.arch.writer import letter_of
from formwright.draw.words import words
from formwright.errors import FormwrightError
from formwright.report.material import Material
from formwright.space import TreeSpace
from formwright.space.choosing import Choosing, Copies, May, Number, One, Some
from formwright.space.draw import option_words

FOLDER = "supernet"  # inside the study's
Rows = Mapping[str, Sequence[float]]  # decision to one number per option
# head3, head3.1 (a part of it), mean3a (one of two)
_NUMBERED = re.compile(r"(?P<stem>.*?)[_-]?(?P<number>\d+)(\.\d+|[a-z])?", re.DOTALL)
_MOST_LOOKS = 160  # points of a line


@dataclass(frozen=True)
class Look:
    """How much of each option was on at a step."""

    step: int
    values: Rows


@dataclass(frozen=True)
class Stage:
    """What was still alive when a stage of pruning began, and what each of it was worth."""

    number: int
    alive: Mapping[str, frozenset[int]]
    scores: Mapping[str, Mapping[int, float]]
    words: str


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
class Trace:
    """All of it.

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

    trace: Trace
    name: str = ""
    price: float | None = None


def trace_of(material: Material) -> Trace:
    """What the supernet of a study left; empty where it had none."""
    if material.folder is None:
        return Trace()
    return _read(material.folder / FOLDER, _stamp(material.folder / FOLDER))


def methods_of(material: Material) -> list[Method]:
    """What each method left, as it says in its ``found.json``; one without a name otherwise."""
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
    prices = _rows(_json(study / FOLDER / "prices.json"))
    for path in sorted((study / FOLDER).glob("*/found.json")):
        data = _json(path)
        if not isinstance(data, dict):
            continue
        name, place, price = (data.get(key, "") for key in ("method", "folder", "price"))
        folder = _inside(study / FOLDER, study / place) if isinstance(place, str) else None
        if not isinstance(name, str) or folder is None:
            continue
        trace = _read(folder, _stamp(folder))
        yield Method(
            replace(trace, prices=trace.prices or prices),
            name,
            float(price) if _is_number(price) else None,
        )


def _inside(whole: Path, part: Path) -> Path | None:
    """A folder, if it lies in another; what a file names elsewhere is not read."""
    try:
        found = part.resolve()
        return found if found.is_relative_to(whole.resolve()) else None
    except (OSError, ValueError, RuntimeError):  # no name of a file, or links in a circle
        return None


@lru_cache(maxsize=8)
def _read(folder: Path, stamp: tuple[float, ...]) -> Trace:
    """Several sections ask; the files are read once as long as they are the same."""
    return Trace(
        looks=_thinned(_looks(folder / "gates.jsonl")),
        stages=_stages(folder / "stages.jsonl"),
        prices=_rows(_json(folder / "prices.json")),
        space=_space(_json(folder / "search.json")),
    )


def _stamp(folder: Path) -> tuple[float, ...]:
    def changed(name: str) -> float:
        try:
            found = (folder / name).stat()
        except OSError:
            return 0.0
        return found.st_mtime_ns + found.st_size / 1e12

    return tuple(map(changed, ("gates.jsonl", "stages.jsonl", "prices.json", "search.json")))


def _looks(path: Path) -> list[Look]:
    found: dict[int, dict[str, tuple[float, ...]]] = {}
    for line in _lines(path):
        step, name, values = line.get("step"), line.get("name"), _numbers(line.get("values"))
        if type(step) is int and isinstance(name, str) and values:
            found.setdefault(step, {})[name] = values
    return [Look(step, found[step]) for step in sorted(found)]


def _stages(path: Path) -> list[Stage]:
    found = {}
    for line in _lines(path):
        number, alive, scores = line.get("stage"), line.get("alive"), line.get("scores")
        if type(number) is not int or not isinstance(alive, dict):
            continue
        live = {n: frozenset(i for i in row if type(i) is int)
                for n, row in alive.items() if isinstance(row, list)}  # fmt: skip
        worth = {}
        for name, row in (scores if isinstance(scores, dict) else {}).items():
            pairs = row.items() if isinstance(row, dict) else ()
            worth[name] = {int(o): float(s) for o, s in pairs if o.isdecimal() and _is_number(s)}
        said = line.get("words")
        found[number] = Stage(number, live, worth, said if isinstance(said, str) else "")
    return [found[number] for number in sorted(found)]


def _rows(data: Any) -> dict[str, tuple[float, ...]]:
    pairs = data.items() if isinstance(data, dict) else ()
    return {name: values for name, row in pairs if (values := _numbers(row))}


def _space(data: Any) -> TreeSpace | None:
    try:
        return TreeSpace.from_data(data["space"])
    except (FormwrightError, KeyError, TypeError, ValueError, RecursionError):
        return None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        written = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in written.splitlines():
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):  # cut off, or not ours
            continue
        if isinstance(found, dict):
            yield found


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _numbers(row: Any) -> tuple[float, ...]:
    """A row of finite numbers; empty where it is anything else."""
    if not isinstance(row, list) or not all(map(_is_number, row)):
        return ()
    return tuple(map(float, row))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


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
