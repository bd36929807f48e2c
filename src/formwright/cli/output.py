"""How results are shown: numbers for people, JSON for programs."""

import json
import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from formwright.errors import InputError

if TYPE_CHECKING:
    from formwright.tasks import Task


def console() -> Console:
    """Where tables go; plain text without colour when it is not a terminal."""
    return Console(highlight=False, soft_wrap=False)


def wrapped(text: str) -> str:
    """Sentences in lines that fit the terminal, or 80 columns where there is none."""
    columns = shutil.get_terminal_size().columns
    return textwrap.fill(
        text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


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


def table(
    *columns: str, right: tuple[str, ...] = (), wrap: tuple[str, ...] = (), widest: int = 40
) -> Table:
    """A table without lines; numbers stand to the right, long words are cut or wrapped."""
    made = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in columns:
        number = name in right  # numbers are never cut, words may be
        made.add_column(
            name,
            justify="right" if number else "left",
            no_wrap=name not in wrap,
            min_width=max(len(name), 7) if number else None,
            max_width=None if number or name == columns[0] else widest,
        )
    return made


def millions(number: float) -> str:
    """12345678 as 12.35M."""
    return f"{number / 1e6:,.2f}M"


def short_number(number: float) -> str:
    """A number with k, M, G or T."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{number / limit:.2f}{unit}"
    return f"{number:.0f}"


def short_bytes(number: float) -> str:
    """A number of bytes in KiB, MiB or GiB."""
    for power, unit in ((3, "GiB"), (2, "MiB"), (1, "KiB")):
        if number >= 1024**power:
            return f"{number / 1024**power:.1f} {unit}"
    return f"{number:.0f} B"
