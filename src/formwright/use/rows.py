"""Files of texts, read and answered row by row: only what is being answered is in memory.

csv and tsv have a line of names; jsonl has an object, or a text, on each line; any other file has a
text on each line. What was in a row stays in it; the answer comes behind.
"""

import csv
import gzip
import json
import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import tee
from pathlib import Path
from typing import Any, TextIO

from formwright.errors import InputError
from formwright.tasks.files import suffix_of
from formwright.tasks.reading import Reading
from formwright.use.answers import Answer
from formwright.use.readers import Row

_ONE = ("text", "sentence", "content", "body", "review", "comment", "utterance", "source", "prompt")
_FIRST = ("text_a", "sentence1", "premise", "question1", "text1", "question", "query", "first")
_SECOND = (
    "text_b", "sentence2", "hypothesis", "question2", "text2", "context", "document", "second",
)  # fmt: skip
_SEPARATORS = (",", ";", "\t", "|")
_PACKED: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}
_OBJECTS = (".jsonl", ".ndjson")
_TOLD = 64  # rows between two words on how far a file is read
Fields = dict[str, Any]


@dataclass(frozen=True)
class Columns:
    """Which fields of a row are read.

    Args:
        reading: What a model takes.
        text: The field of the text, or of the first of two; a usual name when not given.
        text2: The same of the second.
    """

    reading: Reading
    text: str | None = None
    text2: str | None = None

    @property
    def two(self) -> bool:
        """Whether a row is two texts."""
        return self.reading.pair or self.reading.kind in ("match", "span")

    def of(self, fields: Fields, where: str) -> Row:
        """What the model reads of a row."""
        first = self._value(fields, self.text, _FIRST if self.two else _ONE, "--text", where)
        if not self.two:
            return first if isinstance(first, list) else str(first)
        second = self._value(fields, self.text2, _SECOND, "--text2", where)
        return str(first), str(second)

    def _value(
        self, fields: Fields, given: str | None, usual: Sequence[str], flag: str, where: str
    ) -> Any:
        names = [given] if given is not None else [name for name in usual if name in fields]
        if not names and len(fields) == 1 and not self.two:
            names = list(fields)
        if not names or names[0] not in fields:
            asked = f"no column {given!r}" if given else "no column of text that is understood"
            have = ", ".join(map(repr, fields)) or "nothing"
            raise InputError(f"{where} has {asked}; it has {have}. Say which one with {flag} NAME.")
        value = fields[names[0]]
        return "" if value is None else value


def read_file(
    path: Path, seen: Callable[[int], None] | None = None
) -> Iterator[tuple[Fields, str]]:
    """Rows of a file, each with what to call it in messages.

    Args:
        path: A csv, tsv, jsonl or text file.
        seen: Told how many bytes were read, every few rows.
    """
    try:
        with (
            open(path, "rb") as raw,
            _PACKED.get(path.suffix.lower(), nullcontext)(raw) as unpacked,
            TextIOWrapper(unpacked, encoding="utf-8-sig", newline="") as file,
        ):
            for number, row in enumerate(_rows(file, suffix_of(path), path.name)):
                if seen is not None and number % _TOLD == 0:
                    seen(raw.tell())
                yield row
    except (OSError, EOFError, lzma.LZMAError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read: {why}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; save it as UTF-8.") from None


def read_lines(file: Iterable[str]) -> Iterator[tuple[Fields, str]]:
    """Rows of a stream: lines of text, or JSON objects where a line begins with one."""
    for number, line in enumerate(file, 1):
        if line.strip():
            yield _fields(line.rstrip("\n")), f"line {number}"


def _rows(file: TextIO, suffix: str, name: str) -> Iterator[tuple[Fields, str]]:
    if suffix in (".csv", ".tsv"):
        header = file.readline()
        file.seek(0)
        separator = "\t" if suffix == ".tsv" else max(_SEPARATORS, key=header.count)
        try:
            table = csv.DictReader(file, delimiter=separator)
            for number, row in enumerate(table, 1):
                yield {k: v for k, v in row.items() if k is not None}, f"row {number} of {name}"
        except csv.Error as error:
            raise InputError(f"{name} is no table: {error}.") from None
        return
    for number, line in enumerate(file, 1):
        if line.strip():
            where = f"line {number} of {name}"
            yield _fields(line.rstrip("\r\n"), where if suffix in _OBJECTS else ""), where


def _fields(line: str, where: str = "") -> Fields:
    """A line as fields; it must be JSON where ``where`` is given."""
    if where or line.lstrip().startswith("{"):
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if isinstance(found, dict):
            return found
        if where and isinstance(found, str | list):
            return {"text": found}
        if where:
            raise InputError(f"{where} is no JSON object.")
    return {"text": line}


# --- answers ----------------------------------------------------------------------------

Answers = Callable[[Iterable[Row]], Iterator[Answer]]


def answered(
    rows: Iterable[tuple[Fields, str]], columns: Columns, answers: Answers
) -> Iterator[tuple[Fields, Answer]]:
    """Every row with its answer."""
    kept, asked = tee(rows)
    said = answers(columns.of(fields, where) for fields, where in asked)
    return ((fields, answer) for (fields, _), answer in zip(kept, said, strict=True))


@contextmanager
def writer(path: Path) -> Iterator[Callable[[Fields, Answer], None]]:
    """What writes rows with their answers into a file, which is there only once all is written."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="") as file:
            yield _Lines(file) if path.suffix.lower() in _OBJECTS else _Table(file, path)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        partial.unlink(missing_ok=True)


class _Lines:
    """JSON lines."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def __call__(self, fields: Fields, answer: Answer) -> None:
        row = {**fields, **_named(fields, answer.to_data())}
        self.file.write(json.dumps(row, ensure_ascii=False) + "\n")


class _Table:
    """Columns, the answer's behind those that were there."""

    def __init__(self, file: TextIO, path: Path) -> None:
        self.file, self.separator = file, "\t" if path.suffix.lower() == ".tsv" else ","
        self.table: csv.DictWriter[str] | None = None

    def __call__(self, fields: Fields, answer: Answer) -> None:
        found = {name: _cell(value) for name, value in answer.to_data().items()}
        row = {**fields, **_named(fields, found)}
        if self.table is None:
            self.table = csv.DictWriter(
                self.file, list(row), delimiter=self.separator, extrasaction="ignore"
            )
            self.table.writeheader()
        self.table.writerow(row)


def _named(fields: Fields, found: Mapping[str, Any]) -> Fields:
    """An answer's values; what the row already has is called predicted."""
    return {f"predicted_{k}" if k in fields else k: v for k, v in found.items()}


def _cell(value: Any) -> Any:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else value
