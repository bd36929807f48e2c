"""What all benchmarks share: arguments, seeds, data, and results that are kept as they come.

    from harness import Parts, Rows, arguments

    def main() -> None:
        asked = arguments(__doc__, seeds=3, data=True).parse_args()
        table = Rows("mine")                          # benchmarks/results/mine.json, a list of rows
        for seed in range(asked.seeds):
            table.once({"case": "a", "seed": seed}, lambda: {"accuracy": measured(seed)})

A row that is on record is not measured again, and the file is whole at any moment, so a benchmark
that was stopped or killed goes on when it is started again. ``Parts`` is the same for a file with
one value for each part. ``FORMWRIGHT_RESULTS`` names another folder for all results: short runs, as
``evidence.py run`` makes them, never touch the figures that are published.
"""

import argparse
import fcntl
import json
import lzma
import os
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from formwright.files import write_atomically

VARIABLE = "FORMWRIGHT_RESULTS"
PUBLISHED = Path(__file__).parent / "results"


def results(name: str) -> Path:
    """The file that a benchmark's results go to."""
    folder = Path(os.environ.get(VARIABLE) or PUBLISHED)
    return folder / f"{name}.json"


class _File:
    """A JSON file that is whole at any moment, also when several processes add to it."""

    def __init__(self, name: str | Path) -> None:
        self.path = name if isinstance(name, Path) else results(name)

    def _read(self, empty: Any) -> Any:
        return json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else empty

    def _write(self, data: Any) -> None:
        write_atomically(self.path, (json.dumps(data, indent=1) + "\n").encode())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process changes the file meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path.parent, os.O_RDONLY)  # the folder itself: no file is left behind
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


class Rows(_File):
    """A list of rows, each an object; what it is about is part of the row."""

    def read(self) -> list[dict[str, Any]]:
        """What is on record."""
        found: list[dict[str, Any]] = self._read([])
        return found

    def find(self, about: Mapping[str, Any]) -> dict[str, Any] | None:
        """The row about this, or None."""
        return next((row for row in self.read() if about.items() <= row.items()), None)

    def add(self, row: Mapping[str, Any]) -> None:
        """Write one more row down, and print it."""
        with self._alone():
            self._write([*self.read(), dict(row)])
        print(json.dumps(row), flush=True)

    def replace(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the whole file anew."""
        with self._alone():
            self._write([dict(row) for row in rows])

    def once(
        self, about: Mapping[str, Any], work: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The row about this; measured and written down unless it is on record."""
        if (known := self.find(about)) is None:
            known = {**about, **work()}
            self.add(known)
        return known


class Parts(_File):
    """An object with one value for each part."""

    def read(self) -> dict[str, Any]:
        """What is on record."""
        found: dict[str, Any] = self._read({})
        return found

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """What is on record, to be changed; written when the block ends, unless it fails."""
        with self._alone():
            found = self.read()
            yield found
            self._write(found)

    def keep(self, name: str, value: Any, *, say: bool = True) -> None:
        """Write the value of a part down, in place of an earlier one, and print it."""
        with self.changing() as found:
            found[name] = value
        if say:
            print(name, json.dumps(value), flush=True)

    def replace(self, found: Mapping[str, Any]) -> None:
        """Write the whole file anew."""
        with self._alone():
            self._write(dict(found))


def arguments(
    doc: str | None,
    *,
    seeds: int | None = None,
    data: bool | None = None,
    only: Sequence[str] | None = None,
    share: bool = False,
) -> argparse.ArgumentParser:
    """A parser with the options that many benchmarks take, and one thread for torch.

    Args:
        doc: Docstring of the benchmark.
        seeds: How many there are by default; None for a benchmark without.
        data: Whether ``--data FOLDER`` must be given (True), may be (False) or is unknown (None).
        only: Names that ``--only`` takes; an empty list for any.
        share: Whether ``--share`` shortens all trainings alike, for a short form.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if data is not None:
        parser.add_argument("--data", type=Path, required=data, help="folder of the data sets")
    if seeds is not None:
        parser.add_argument("--seeds", type=_positive, default=seeds)
    if only is not None:
        parser.add_argument("--only", nargs="*", choices=only or None, default=[])
    if share:
        parser.add_argument("--share", type=float, default=1.0, help="of all training steps")
    one_thread()
    return parser


def one_thread() -> None:
    """Figures are of one thread: on a shared machine two of them wait for each other.

    Benchmarks that do not import torch are not given it, which would count as memory and time.
    """
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


def unpacked(data: Path, out: Path, *names: str) -> Path:
    """The folder ``out`` with these files as plain text, whether they are packed (.xz) or not."""
    for name in names:
        packed, plain = data / f"{name}.xz", data / name
        text = lzma.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
        (out / name).write_bytes(text)
    return out


def named(task: str) -> str:
    """A task without the folders of its files, which differ from machine to machine."""
    return re.sub(r"[^:,?&=]*/", "", task)


def spread(values: Iterable[float]) -> dict[str, Any]:
    """Mean, standard deviation (0 of a single one) and the values themselves."""
    listed = list(values)
    deviation = statistics.stdev(listed) if len(listed) > 1 else 0.0
    return {"mean": statistics.fmean(listed), "sd": deviation, "values": listed}


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is too few; give at least 1")
    return number
