"""Values that people type, ``lr=1e-3`` or ``training.steps=200``, as fields of frozen records."""

import ast
import typing
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar

from formwright.errors import InputError, UnknownName

Record = TypeVar("Record")


def settings(cls: type, changes: Iterable[str]) -> dict[str, Any]:
    """``lr=1e-3`` and the like as fields of a configuration, with their types."""
    known = typing.get_type_hints(cls)
    return dict(_read(known, *_halves(change)) for change in changes)


def with_setting(record: Record, change: str, usual: str = "") -> Record:
    """The same record with a field changed, also inside others: ``training.steps=200``.

    Args:
        record: A frozen dataclass.
        change: Path and value.
        usual: The field in which a name is looked for that the record itself does not have.
    """
    path, text = _halves(change)
    first = path.partition(".")[0]
    if usual and first not in typing.get_type_hints(type(record)):
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
    known = typing.get_type_hints(type(record))
    if not rest:
        return replace(record, **dict([_read(known, name, text)]))
    if name not in known:
        raise UnknownName("setting", name, known)
    return replace(record, **{name: _changed(getattr(record, name), rest, text, change)})


def _halves(change: str) -> tuple[str, str]:
    name, equals, text = change.partition("=")
    if not equals:
        raise InputError(f"--set {change} has no value; write --set {name}=VALUE.")
    return name, text


def _read(known: Mapping[str, Any], name: str, text: str) -> tuple[str, Any]:
    if name not in known:
        raise UnknownName("setting", name, known)
    hint = known[name]
    words = {w for part in typing.get_args(hint) for w in typing.get_args(part)}
    words |= {w for w in typing.get_args(hint) if isinstance(w, str)}
    if hint is str:
        return name, text
    try:
        value = text if text in words else ast.literal_eval(text.replace("true", "True"))
    except (ValueError, SyntaxError):
        value = None
    if not _fits(value, hint, words):
        allowed = f"one of {', '.join(sorted(words))}" if words else "a number"
        raise InputError(f"--set {name}={text} cannot be used; {name} must be {allowed}.")
    return name, value


def _fits(value: Any, hint: Any, words: set[Any]) -> bool:
    if words:
        return value in words
    kinds = str(hint)
    if isinstance(value, bool):
        return "bool" in kinds
    if isinstance(value, int):
        return "int" in kinds or "float" in kinds
    return (isinstance(value, float) and "float" in kinds) or isinstance(value, tuple)
