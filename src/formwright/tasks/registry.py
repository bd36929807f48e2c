"""The tasks by name: ``listops``, ``classify:reviews.csv``, ``lm:book.txt?tokenizer=words``.

A task's file registers it with ``@task``; nothing else has to be edited. Options are the fields of
a dataclass that is registered with it; in a string they follow a question mark.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Protocol, TypeVar, get_args, runtime_checkable
from urllib.parse import unquote

from formwright.errors import InputError
from formwright.registry import Declared
from formwright.tasks.base import Task
from formwright.tasks.guide import Guide, guide_data, options_of

_OPTIONS = re.compile(r"\?([A-Za-z_]\w*=[^&?]*(?:&[A-Za-z_]\w*=[^&?]*)*)$")
_TRUE, _FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off")
Maker = TypeVar("Maker", bound=Callable[..., Task])
_NOTHING_SAID = Guide()
Metric = Callable[[list[Any], list[Any]], float]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be chosen about a task; each kind adds its own fields."""


@runtime_checkable
class TakesMetric(Protocol):
    """A task whose answers can be judged by a function of the user's."""

    def measure_by(self, own: Metric) -> None:
        """Let ``own`` be the metric that counts."""


@dataclass(frozen=True)
class Entry:
    """A task, or a kind of task that reads what the user names after a colon."""

    name: str
    description: str
    make: Callable[..., Task]
    options: type[Options]
    target: str  # what follows the colon, such as PATH; "" for built-in tasks
    guide: Guide = _NOTHING_SAID

    @property
    def shown(self) -> str:
        """As it stands in a list."""
        return f"{self.name}:{self.target}" if self.target else self.name


tasks: Declared[Entry] = Declared(
    "task",
    "formwright.tasks",
    "formwright.tasks",
    listing="Run `formwright tasks` to list all of them.",
)


def task(
    name: str,
    description: str,
    options: type[Options] = Options,
    target: str = "",
    guide: Guide | None = None,
) -> Callable[[Maker], Maker]:
    """Register a function that makes a task.

    It is called with the task as the user wrote it and its options; where there is a ``target``
    (such as PATH), what follows the colon comes first. ``guide`` tells users what it takes.
    """
    told = guide or _NOTHING_SAID
    return tasks.declare(name, lambda make: Entry(name, description, make, options, target, told))


def task_names() -> list[tuple[str, str]]:
    """Every task and kind of task, with a line about it: built-in ones first."""
    entries = sorted(tasks.items(), key=lambda item: (bool(item[1].target), item[0]))
    return [(entry.shown, entry.description) for _, entry in entries]


def option_names(text: str) -> list[str]:
    """The options that a task, as a user writes it, has."""
    kind = _OPTIONS.sub("", text.strip()).partition(":")[0]
    return list(inspect.signature(tasks.get(kind).options).parameters)


def task_guide(name: str) -> dict[str, Any]:
    """What a task or a kind of task takes, by its name alone: ``classify``, ``listops``."""
    entry = tasks.get(name)
    example = entry.guide.example or entry.shown
    return {
        "name": entry.name,
        "written": entry.shown,
        "description": entry.description,
        **guide_data(entry.guide),
        "example": example,
        "options": options_of(entry.options),
        "command": f"formwright train '(sf)x2' --steps 500 --task '{example}'",
    }


def needs_path(name: str) -> bool:
    """Whether a task of this name is a kind, which reads what the user names after a colon."""
    return bool(tasks.get(name).target)


def load_task(text: str, **options: Any) -> Task:
    """The task that ``text`` names.

    Args:
        text: A name such as ``listops-tiny``, or KIND:PATH, both with options behind a question
            mark: ``classify:reviews.csv?text=body&label=stars``.
        options: The same options as Python values, such as ``text_column="body"``. ``metric`` may
            be a function of (answers, wanted), two lists with one item for each row, that gives a
            number: labels, lists of tags, answers, or translations as the user's files have them.
            More is better unless it has an attribute ``higher_is_better`` that is False.
    """
    whole, text = text.strip(), text.strip()
    found = _OPTIONS.search(text)
    written = {}
    if found is not None:
        text = text[: found.start()]
        pairs = (pair.partition("=") for pair in found.group(1).split("&"))
        written = {key: unquote(value) for key, _, value in pairs}
    kind, colon, target = text.partition(":")
    entry = tasks.get(kind)
    if bool(entry.target) != bool(colon and target):
        raise InputError(
            f"The task {kind} is written {entry.shown}; {whole!r} is not. "
            f"`formwright tasks show {kind}` says what it takes."
            if entry.target
            else f"The task {kind} is built in and takes no path; write {kind!r} alone."
        )
    known = inspect.signature(entry.options).parameters
    given = _coerced(entry, known, written)
    own = options.pop("metric") if callable(options.get("metric")) else None
    given |= {_option(entry, known, name): v for name, v in options.items() if v is not None}
    made = entry.make(*((target,) if entry.target else ()), whole, entry.options(**given))
    return made if own is None else _measured_by(made, own)


def _measured_by(made: Task, own: Metric) -> Task:
    if not isinstance(made, TakesMetric):
        raise InputError(
            f"{made.name} is measured by {made.metric}, which follows from the loss; it takes no "
            "metric of your own."
        )
    made.measure_by(own)
    return made


def _option(entry: Entry, known: Mapping[str, inspect.Parameter], name: str) -> str:
    """The full name of an option: ``text`` may be said for ``text_column``."""
    for full in (name, f"{name}_column"):
        if full in known:
            return full
    close = get_close_matches(name, known, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"It has: {', '.join(known) or 'none'}."
    raise InputError(f"The task {entry.name} has no option {name!r}. {hint}")


def _coerced(
    entry: Entry, known: Mapping[str, inspect.Parameter], written: dict[str, str]
) -> dict[str, Any]:
    """Options from a string, as the types that their parameters ask for."""
    made = {}
    for name, value in written.items():
        full = _option(entry, known, name)
        made[full] = _coerce(f"{entry.name}?{name}", value, known[full].annotation)
    return made


def _coerce(where: str, value: str, wanted: Any) -> Any:
    kinds = [kind for kind in (get_args(wanted) or (wanted,)) if kind is not type(None)]
    if kinds == [bool]:
        if value.lower() in _TRUE + _FALSE:
            return value.lower() in _TRUE
        raise InputError(f"{where} is true or false, not {value!r}.")
    for kind in (int, float):
        if kind in kinds:
            try:
                return kind(value)
            except ValueError:
                article = "a whole number" if kind is int else "a number"
                raise InputError(f"{where} should be {article}, not {value!r}.") from None
    return value
