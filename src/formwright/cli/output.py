"""How results are shown: numbers for people, JSON for programs."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formwright.errors import InputError
from formwright.terminal.words import console, short_number, table, wrapped

if TYPE_CHECKING:
    from formwright.tasks import Task

__all__ = [
    "console",
    "millions",
    "print_json",
    "say_notes",
    "short_bytes",
    "short_number",
    "table",
    "wrapped",
    "write_drawing",
]


def say_notes(task: "Task", *, quiet: bool) -> None:
    """What a user should know about their data before they believe a number."""
    from formwright.tasks.examples import ExampleTask
    from formwright.tasks.lm import StreamTask

    if isinstance(task, ExampleTask | StreamTask) and not quiet:
        for note in task.cautions():
            print(wrapped(f"note: {note}"), flush=True)


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def write_drawing(path: Path, drawing: str) -> None:
    """Write a drawing to a file."""
    try:
        path.write_text(drawing, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None


def millions(number: float) -> str:
    """12345678 as 12.35M."""
    return f"{number / 1e6:,.2f}M"


def short_bytes(number: float) -> str:
    """A number of bytes in KiB, MiB or GiB."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if number >= 1024**power:
            return f"{number / 1024**power:.1f} {unit}"
    return f"{number:.0f} B"
