"""Values that people type, ``lr=1e-3`` or ``training.steps=200``, as fields of frozen records."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from formwright.arch import Architecture, parse
from formwright.arch.style import Style, style
from formwright.errors import InputError, UnknownName

Record = TypeVar("Record")
_SAMPLES = (1, 1.0, True, (1,), (1.0,))  # of what can be typed
_WORDS = {"true": True, "false": False, "none": None}
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "none"}


def settings(cls: type, changes: Iterable[str]) -> dict[str, Any]:
    """``lr=1e-3`` and the like as fields of a configuration, with their types."""
    return {name: _read(cls, name, text) for name, text in map(_halves, changes)}


def with_setting(record: Record, change: str, usual: str = "") -> Record:
    """The same record with a field changed, also inside others: ``training.steps=200``.

    Args:
        record: A frozen dataclass.
        change: Path and value.
        usual: The field in which a plain name is looked for that the record itself does not have.
    """
    path, text = _halves(change)
    known = _types(type(record))
    if "." not in path and path not in known and usual in known:
        path = f"{usual}.{path}"
    return _changed(record, path, text, change)


def _changed(record: Any, path: str, text: str, change: str) -> Any:
    name, _, rest = path.partition(".")
    if isinstance(record, tuple):
        if not name.isdecimal() or int(name) >= len(record) or not rest:
            raise InputError(f"--set {change}: {name!r} is no place in a list of {len(record)}.")
        items = list(record)
        items[int(name)] = _changed(items[int(name)], rest, text, change)
        return tuple(items)
    if not is_dataclass(record) or isinstance(record, type):
        raise InputError(f"--set {change}: {name!r} stands in {record!r:.60}, which has no parts.")
    if not rest:
        return replace(record, **{name: _value(record, name, text)})
    if name not in (known := _types(type(record))):
        raise UnknownName("setting", name, known)
    return replace(record, **{name: _changed(getattr(record, name), rest, text, change)})


def _value(record: Any, name: str, text: str) -> Any:
    """What a field is set to; of things with names, those that are named."""
    now: Any = getattr(record, name, None)
    if not (names := _names(now)):
        return _read(type(record), name, text)
    wanted = [word.strip() for word in text.split(",") if word.strip()]
    for word in wanted:
        if word not in names:
            raise UnknownName(name.removesuffix("s"), word, names)
    if not wanted:
        raise InputError(f"--set {name}= names none; allowed are some of {', '.join(names)}.")
    return tuple(pair for pair in now if pair[0] in wanted)


def _names(value: Any) -> list[str]:
    """The names of things that are kept by name: ((name, thing), ...)."""
    named = isinstance(value, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
        and not isinstance(pair[1], str | int | float)
        for pair in value
    )  # fmt: skip
    return [pair[0] for pair in value] if named else []


def _types(cls: type) -> dict[str, Any]:
    """The fields of a record with their types."""
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _halves(change: str) -> tuple[str, str]:
    name, equals, text = change.partition("=")
    if not equals:
        raise InputError(f"--set {change} has no value; write --set {name}=VALUE.")
    return name, text


def _read(cls: type, name: str, text: str) -> Any:
    known = _types(cls)
    if name not in known:
        raise UnknownName("setting", name, known)
    if known[name] is str:
        return text
    if known[name] is Architecture:
        return parse(text)
    if known[name] is Style:
        return _style(name, text)
    try:
        value = _WORDS[text.lower()] if text.lower() in _WORDS else ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if isinstance(value, str) and known[name] == tuple[str, ...]:
        value = tuple(word.strip() for word in text.split(",") if word.strip())
    if not _fits(value, known[name]):
        allowed = _said(known[name])
        raise InputError(f"--set {name}={text} cannot be used; {name} must be {allowed}.")
    return value


def _style(name: str, text: str) -> Style:
    """A style as notation has it: ``bert``, ``bert(64, heads=4)``."""
    try:
        call = ast.parse(text, mode="eval").body
        match call:
            case ast.Name(known):
                return style(known)
            case ast.Call(ast.Name(known), given, named):
                sizes = [ast.literal_eval(value) for value in given]
                more = {str(word.arg): ast.literal_eval(word.value) for word in named}
                return style(known, *sizes, **more)
            case _:
                raise ValueError(text)
    except (SyntaxError, TypeError, ValueError):
        raise InputError(
            f"--set {name}={text} cannot be used; write a style with its sizes, such as "
            "bert(64, heads=4)."
        ) from None


def _fits(value: Any, hint: Any) -> bool:
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is Literal:
        return value in parts
    if kind is tuple:
        every = parts[:1] * len(value) if isinstance(value, tuple) and ... in parts else parts
        return (
            isinstance(value, tuple) and len(value) == len(every) and all(map(_fits, value, every))
        )
    return type(value) is hint or (hint is float and type(value) is int)


def _said(hint: Any) -> str:
    """What fits, in words."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(map(_said, parts))
    if kind is Literal:
        return f"one of {', '.join(sorted(map(str, parts)))}"
    if hint is str:
        return "words"
    if hint == tuple[str, ...]:
        return "words, such as one,two"
    if kind is tuple and parts[0] in (*_KINDS, str):
        return "several, such as (1, 2)"
    return _KINDS.get(hint, "set by its parts, such as training.steps=200")


@dataclass(frozen=True)
class Key:
    """Something that ``--set`` can change.

    Args:
        path: As it is typed: ``training.steps``.
        value: What it is now.
        allowed: What it may be, in words.
    """

    path: str
    value: Any
    allowed: str


def keys(record: Any, apart: Iterable[str] = (), before: str = "") -> Iterator[Key]:
    """Everything in a record, and in the records inside it, that can be set.

    Args:
        record: A frozen dataclass.
        apart: Names of its own fields that cannot.
        before: Stands before each path.
    """
    hidden = set(apart)
    for name, hint in _types(type(record)).items():
        value = getattr(record, name)
        if name in hidden or name.startswith("_"):
            continue
        if is_dataclass(value) and not isinstance(value, type):
            yield from keys(value, before=f"{before}{name}.")
        elif names := _names(value):
            yield Key(f"{before}{name}", ",".join(names), "some of these, by name")
        elif hint is str or any(_fits(sample, hint) for sample in (value, *_SAMPLES)):
            yield Key(f"{before}{name}", value, _said(hint))
