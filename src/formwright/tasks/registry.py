"""The tasks by name: ``listops``, ``classify:reviews.csv``, ``lm:book.txt?tokenizer=words``.

A task's file registers it with ``@task``; nothing else has to be edited. Options are the fields of
a dataclass that is registered with it; in a string they follow a question mark.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, get_args
from urllib.parse import unquote

from formwright.errors import InputError
from formwright.registry import Declared
from formwright.tasks.base import Task

_OPTIONS = re.compile(r"\?([A-Za-z_]\w*=[^&?]*(?:&[A-Za-z_]\w*=[^&?]*)*)$")
_TRUE, _FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off")
Maker = TypeVar("Maker", bound=Callable[..., Task])


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be chosen about a task; each kind adds its own fields."""


@dataclass(frozen=True)
class Entry:
    """A task, or a kind of task that reads what the user names after a colon."""

    name: str
    description: str
    make: Callable[..., Task]
    options: type[Options]
    target: str  # what follows the colon, such as PATH; "" for built-in tasks

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
    name: str, description: str, options: type[Options] = Options, target: str = ""
) -> Callable[[Maker], Maker]:
    """Register a function that makes a task.

    It is called with the task as the user wrote it and its options; where there is a ``target``
    (such as PATH), what follows the colon comes first.
    """
    return tasks.declare(name, lambda make: Entry(name, description, make, options, target))


def task_names() -> list[tuple[str, str]]:
    """Every task and kind of task, with a line about it: built-in ones first."""
    entries = sorted(tasks.items(), key=lambda item: (bool(item[1].target), item[0]))
    return [(entry.shown, entry.description) for _, entry in entries]


def option_names(text: str) -> list[str]:
    """The options that a task, as a user writes it, has."""
    kind = _OPTIONS.sub("", text.strip()).partition(":")[0]
    return list(inspect.signature(tasks.get(kind).options).parameters)


def load_task(text: str, **options: Any) -> Task:
    """The task that ``text`` names.

    Args:
        text: A name such as ``listops-tiny``, or KIND:PATH, both with options behind a question
            mark: ``classify:reviews.csv?text=body&label=stars``.
        options: The same options as Python values, such as ``text_column="body"``.
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
            f"The task {kind} is written {entry.shown}; {whole!r} is not."
            if entry.target
            else f"The task {kind} is built in and takes no path; write {kind!r} alone."
        )
    known = inspect.signature(entry.options).parameters
    given = _coerced(entry, known, written)
    given |= {_option(entry, known, name): v for name, v in options.items() if v is not None}
    return entry.make(*((target,) if entry.target else ()), whole, entry.options(**given))


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
