"""Tables of the user: csv, tsv, jsonl, json and parquet files as rows with named columns."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from formwright.errors import InputError
from formwright.tasks.files import read_bytes, read_lines, read_text, suffix_of

TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_LOOKED_AT = 20  # rows that must be cut alike by a separator
_LONGEST_NAME = 30  # characters of what is proposed as the name of a column
_QUOTED = 120  # characters of a line that a message quotes
Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """Rows with named columns.

    Args:
        path: The file.
        columns: Their names, or numbers from 1 where the first line names none that is known.
        rows: Cells by column.
        files: Where every row is a file: their names.
        header: The first line as it stands, where it was not understood.
        cells: What stands in that line.
        notes: What the user should know about how the file was read.
    """

    path: Path
    columns: list[str]
    rows: list[Row]
    files: tuple[str, ...] = ()
    header: str = ""
    cells: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def where(self, row: int) -> str:
        """How to name a row, counted from 0, so that the user finds it."""
        return self.files[row] if self.files else f"row {row + 1} of {self.path.name}"


def read_table(path: Path, known: Iterable[str] = ()) -> Table:
    """A csv, tsv, jsonl, json or parquet file.

    The first line of csv and tsv is a header if it holds a name in ``known``; otherwise it is
    data, and columns are called 1, 2, ...
    """
    kind = suffix_of(path)
    if kind in (".jsonl", ".ndjson"):
        lines = enumerate(read_lines(path), 1)
        rows = [_json_row(line, number, path) for number, line in lines if line.strip()]
    elif kind == ".json":
        rows = _json_list(path)
    elif kind == ".parquet":
        rows = _parquet(path)
    elif kind in (".csv", ".tsv"):
        return _cells(path, kind, {name.lower() for name in known})
    else:
        raise InputError(f"{path} is not csv, tsv, jsonl, json or parquet.")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return Table(path, columns, rows)


# --- cells ------------------------------------------------------------------------------


def _cells(path: Path, kind: str, known: set[str]) -> Table:
    csv.field_size_limit(2**31 - 1)
    lines = read_lines(path)
    usual = "\t" if kind == ".tsv" else ","
    separator = _separator(lines, known, usual)
    if kind == ".tsv" and separator == "\t":
        # tabs never stand inside a cell, and quotes are part of the text
        cells = [line.split("\t") for line in lines if line]
    else:
        try:
            cells = [row for row in _parsed(lines, separator, strict=True) if row]
        except csv.Error as error:
            raise InputError(f"{path.name} is not proper csv: {error}.") from None
    named = any(cell.strip().lower() in known for cell in cells[0])
    columns = [c.strip() for c in cells[0]] if named else [str(n + 1) for n in range(len(cells[0]))]
    rows = _rows(path, columns, cells[named:], separator)
    other = f"the cells of {path.name} are separated by {_SEPARATORS[separator]}"
    return Table(
        path,
        columns,
        rows,
        header="" if named else next(line for line in lines if line),
        cells=() if named else tuple(cell.strip() for cell in cells[0]),
        notes=() if separator == usual else (other,),
    )


def _rows(path: Path, columns: list[str], cells: list[list[str]], separator: str) -> list[Row]:
    rows = []
    for number, row in enumerate(cells, 1):
        if len(row) != len(columns):
            raise InputError(
                f"row {number} of {path.name} has {len(row)} cells, but there are {len(columns)} "
                f"columns; {_SEPARATORS[separator]} separate cells unless they stand in quotes."
            )
        rows.append(dict(zip(columns, row, strict=True)))
    if not rows:
        raise InputError(f"{path} has a header and no rows.")
    return rows


def _parsed(lines: Sequence[str], separator: str, *, strict: bool) -> Iterator[list[str]]:
    return csv.reader((line + "\n" for line in lines), delimiter=separator, strict=strict)


def _separator(lines: list[str], known: set[str], usual: str) -> str:
    """What separates cells: what gives known columns, else what cuts the first rows alike.

    Tabs of a tsv file are given up only for a header that can be read in another way.
    """

    def merit(separator: str) -> tuple[int, bool, int]:
        try:
            rows = list(islice(_parsed(lines, separator, strict=False), _LOOKED_AT))
        except csv.Error:
            return 0, False, 0
        rows = [row for row in rows if row] or [[]]
        named = sum(cell.strip().lower() in known for cell in rows[0])
        alike = len(rows[0]) > 1 and len({len(row) for row in rows}) == 1
        return named, alike, len(rows[0])

    order = sorted(_SEPARATORS, key=lambda separator: separator != usual)
    best = max(order, key=merit)  # the first of equals
    return usual if usual == "\t" and merit(best)[0] <= merit(usual)[0] else best


# --- JSON and parquet -------------------------------------------------------------------


def _json_row(line: str, number: int, path: Path) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"line {number} of {path.name} is not JSON: {error}.") from None
    if not isinstance(row, dict):
        raise InputError(f"line {number} of {path.name} is not an object such as {{...}}.")
    return row


def read_json(path: Path) -> Any:
    """A whole JSON document."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is not JSON: {error}.") from None


def _json_list(path: Path) -> list[Row]:
    rows = read_json(path)
    if isinstance(rows, dict) and isinstance(rows.get("data"), list):
        rows = rows["data"]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path.name} should hold a list of objects, one for each row.")
    return rows


def _parquet(path: Path) -> list[Row]:
    try:
        arrow: Any = import_module("pyarrow")  # optional, and slow to load
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise InputError(
            f"{path.name} needs the pyarrow library. Install it with: pip install pyarrow"
        ) from None
    raw = read_bytes(path)
    try:
        rows: list[Row] = parquet.read_table(arrow.BufferReader(raw)).to_pylist()
    except (arrow.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{path} is damaged or not parquet: {reason}.") from None
    if not rows:
        raise InputError(f"{path} has no rows.")
    return rows


# --- columns ----------------------------------------------------------------------------


def find_column(table: Table, wanted: str | None, usual: Sequence[str]) -> str | None:
    """The column called ``wanted``, or the first with a usual name; None when there is none."""
    if wanted is not None:
        if wanted not in table.columns:
            raise InputError(f"there is no column {wanted!r} in {table.path.name}; {_has(table)}.")
        return wanted
    lower = {name.lower(): name for name in table.columns}
    return next((lower[name] for name in usual if name in lower), None)


def need_column(
    table: Table,
    wanted: str | None,
    usual: Sequence[str],
    what: str,
    taken: Sequence[str] = (),
    others: Sequence[str] = (),
) -> str:
    """``find_column``, or what to do when there is none.

    Args:
        table: Where it should be.
        wanted: Its name, if the user says it.
        usual: The names that it usually has.
        what: What it holds, which is also the name of its option.
        taken: Columns that are something else.
        others: Options of columns that are needed besides.
    """
    found = find_column(table, wanted, usual)
    if found is None:
        raise no_column(table, usual, (what, *others), taken)
    return found


def no_column(
    table: Table, usual: Sequence[str], options: Sequence[str], taken: Sequence[str] = ()
) -> InputError:
    """What to say when no column has a usual name; ``options`` are how columns are named."""
    looked = ", ".join(usual)
    name, what = table.path.name, options[0]
    if not table.header:
        free = [column for column in table.columns if column not in taken] or table.columns
        return InputError(
            f"there is no column {usual[0]!r} in {name}; {_has(table)}, and {looked} were looked "
            f"for. Say which one holds the {what}, as in {name}?{_written(options[:1], free)}."
        )
    if len(table.cells) < 2 and len(options) > 1:
        return InputError(
            f"the first line of {name} is {_quoted(table.header)}, in which no comma, semicolon, "
            f"tab or bar separates cells; columns for {' and '.join(options)} are needed."
        )
    counted = _written(options, [str(n + 1) for n in range(len(table.cells))])
    return InputError(
        f"the first line of {name} is {_quoted(table.header)}, which names no column for the "
        f"{what} ({looked} were looked for). Name the columns, as in "
        f"?{_written(options, table.cells)}, or count them if that line is no header, as in "
        f"?{counted}."
    )


def _written(options: Sequence[str], columns: Sequence[str]) -> str:
    named = (name if 0 < len(name) <= _LONGEST_NAME else "NAME" for name in columns)
    places = [*named, *("..." for _ in options)]
    return "&".join(f"{option}={name}" for option, name in zip(options, places, strict=False))


def _has(table: Table) -> str:
    if table.header:
        return f"its first line is {_quoted(table.header)}"
    return f"the file has {', '.join(table.columns)}"


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _QUOTED else line[: _QUOTED - 3] + "...")
