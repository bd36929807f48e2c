"""Tables, numbers with units, and lines that fit."""

import shutil
import textwrap

from rich.console import Console
from rich.table import Table

_COUNTS = ("params", "decoder_params", "flops", "memory")  # large, so with k, M, G or T
_UNITS = {"latency": "ms", "memory": "B", "seconds": "s", "step_seconds": "s"}


def console() -> Console:
    """Where tables go; plain text without colour when it is not a terminal."""
    return Console(highlight=False, soft_wrap=False)


def wrapped(text: str) -> str:
    """Sentences in lines that fit the terminal, or 80 columns where there is none."""
    columns = shutil.get_terminal_size().columns
    return textwrap.fill(
        text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


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


def short_number(number: float) -> str:
    """A number with k, M, G or T."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= limit:
            return f"{number / limit:.2f}{unit}"
    return f"{number:.0f}"


def unit_of(name: str) -> str:
    """The unit of a value by its name; empty for a plain number."""
    return _UNITS.get(name, "")


def with_unit(name: str) -> str:
    """A value's name as it stands above a column: ``latency (ms)``."""
    unit = unit_of(name)
    return f"{name} ({unit})" if unit else name


def figure(name: str, value: float) -> str:
    """A value without its unit: ``12.3``, ``27.66k``, ``0.913``."""
    return short_number(value) if name in _COUNTS else f"{value:.4g}"


def quantity(name: str, value: float) -> str:
    """A value with its unit: ``12.3 ms``, ``27.66k``, ``0.913``."""
    unit = unit_of(name)
    return f"{figure(name, value)} {unit}".rstrip()


def duration(seconds: float) -> str:
    """A length of time in the unit that reads best: ``45 s``, ``3.5 min``, ``2.0 h``."""
    for least, size, unit in ((172_800, 86_400, "days"), (5400, 3600, "h"), (100, 60, "min")):
        if seconds >= least:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
