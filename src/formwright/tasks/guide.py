"""What a user must know to give a kind of task their own data: ``formwright tasks show KIND``.

A kind declares its guide where it is registered, and what an option means where the option is.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FROM_FILES = (
    "Files named train, valid (or dev) and test, in a folder or beside the training file "
    "(my-train.csv, my-test.csv), or given as valid=PATH and test=PATH. Without valid, 5 % of the "
    "training rows are set aside by their content; a single file is split 90/5/5."
)
GENERATED = "Generated: each split from a seed of its own."
PACKED = {".gz, .xz": "Any of these, packed."}


def option(default: Any, told: str) -> Any:
    """A field of a task's options, with the line that ``tasks show`` prints about it."""
    return field(default=default, metadata={"told": told})


@dataclass(frozen=True)
class Column:
    """A column of the user's table.

    Args:
        option: How the user names it, as in ?text=body.
        holds: What stands in it.
        usual: Names that are found by themselves.
    """

    option: str
    holds: str
    usual: tuple[str, ...] = ()


@dataclass(frozen=True)
class Guide:
    """What a kind of task takes and how it is measured.

    Args:
        metrics: Each with a line about it; the first is usual.
        formats: File formats, each with a line about it.
        columns: Of tables.
        splits: How training, validation and test data are told apart.
        files: An example: small files by name.
        example: The task on these files, as the user writes it.
        default: Which metric is usual where that depends on something.
    """

    metrics: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    splits: str = GENERATED
    files: Mapping[str, str] = field(default_factory=dict)
    example: str = ""
    default: str = ""


def options_of(options: type) -> list[dict[str, Any]]:
    """Every option with its name as users write it, its default and a line about it."""
    return [
        {
            "name": one.name.removesuffix("_column"),
            "default": one.default,
            "about": _told(options, one.name),
        }
        for one in dataclasses.fields(options)
    ]


def _told(options: type, name: str) -> str:
    """The line about an option; a class that only changes a default takes over that of its base."""
    for kind in options.__mro__:
        known = getattr(kind, "__dataclass_fields__", {})
        if name in known and "told" in known[name].metadata:
            return str(known[name].metadata["told"])
    return ""


def guide_data(guide: Guide) -> dict[str, Any]:
    """A guide as plain JSON."""
    return dataclasses.asdict(guide)
