"""Measurements on file, one line each, written before the next one begins.

The first line says what all are measured on. A process that dies leaves at most half a line, which
the next one cuts off, so that nothing is measured again that was measured before.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from formwright.cost.regression import Array
from formwright.errors import FormatError, StorageError
from formwright.locks import taken

JOURNAL_VERSION = 1
_OWN_SPREAD = 0.05  # of a time taken alone: how much a machine's speed wanders
_NARROWEST = 0.003  # spread of a ratio, however narrow its interval came out by luck
_STUDENT = {2: 31.8, 3: 6.97, 4: 4.54, 5: 3.75, 6: 3.37, 7: 3.14}  # 98 %, by rounds
_NORMAL = 2.33  # the same for more rounds


@dataclass(frozen=True)
class Measured:
    """One measurement.

    Attributes:
        ratio: To the target's reference, timed in turns with it.
        low: Lower end of the ratio's interval.
        high: Upper end.
        rounds: How many turns there were.
        own_ms: Its own time in the quietest of them; 0 where it is not known.
        failed: Why there is no measurement, such as a layer that a runtime cannot run.
    """

    ratio: float
    low: float
    high: float
    rounds: int = 0
    own_ms: float = 0.0
    failed: str = ""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Measured":
        """From what ``dataclasses.asdict`` made, other keys left alone."""
        ratio, low, high = (float(data[name]) for name in ("ratio", "low", "high"))
        failed = str(data["failed"])
        if not failed and not 0 < ratio < math.inf:
            raise ValueError(f"ratio={ratio} is no time")
        return cls(ratio, low, high, int(data["rounds"]), float(data["own_ms"]), failed)


def steadied(found: Sequence[Sequence[Measured]]) -> Array:
    """The best ratio of each architecture, from all its measurements.

    A ratio to the reference is free of the machine's moods where there were rounds enough. A slow
    model on a busy machine has three, and then its own quietest time says more. Weights are the
    inverse variances; the two scales are brought together over all measurements.
    """
    flat = [measured for several in found for measured in several]
    logs = np.add.reduceat(_logs(flat), np.cumsum([0, *map(len, found)])[:-1])
    return np.exp(logs / [len(several) for several in found])


def _logs(found: Sequence[Measured]) -> Array:
    ratio = np.log([m.ratio for m in found])
    own = np.array([m.own_ms for m in found])
    known = own > 0
    if known.sum() < 4:  # too few to tell how the two scales lie
        return ratio
    reach = np.array([_STUDENT.get(m.rounds, _NORMAL) for m in found])
    wide = np.log([max(m.high, m.ratio) / max(m.low, 1e-9 * m.ratio) for m in found])
    spread = np.maximum(wide / (2 * reach), _NARROWEST)
    alone = np.log(np.where(known, own, 1.0))
    alone -= np.median(alone[known] - ratio[known])
    trust = np.where(known, _OWN_SPREAD**-2, 0.0)
    combined: Array = (ratio * spread**-2 + alone * trust) / (spread**-2 + trust)
    return combined


class Journal:
    """The measurements of one target, by the id of the architecture.

    Args:
        file: Open for reading and writing, and locked.
        head: What the measurements depend on; another head in the file is refused.
        path: For messages.
    """

    def __init__(self, file: IO[bytes], head: dict[str, Any], path: Path) -> None:
        self._file, self.path = file, path
        self.found: dict[str, tuple[Measured, ...]] = {}
        self.reference_ms = 0.0  # as the first meter found it; later ones differ a little
        lines = self._whole_lines()
        if lines:
            self.head = _parsed(lines[0], path)
            _check_head(self.head, head, path)
            for line in lines[1:]:
                self._take(_parsed(line, path))
        else:
            self.head = {"formwright_journal": JOURNAL_VERSION, **head}
            self._append(self.head)

    def add(self, name: str, measured: Measured) -> None:
        """Write a measurement down; when this returns it is on disk."""
        self._append({"id": name, **asdict(measured)})
        self._remember(name, measured)

    def set_reference(self, milliseconds: float) -> None:
        """Write down what the reference takes."""
        self._append({"reference_ms": milliseconds})
        self.reference_ms = milliseconds

    def _remember(self, name: str, measured: Measured) -> None:
        self.found[name] = (*self.found.get(name, ()), measured)

    def _take(self, data: dict[str, Any]) -> None:
        try:
            if "reference_ms" in data:
                self.reference_ms = float(data["reference_ms"])
                return
            self._remember(str(data["id"]), Measured.from_data(data))
        except (KeyError, TypeError, ValueError):
            raise FormatError(
                f"{self.path} is damaged: a line in it is no measurement. Remove it to begin anew."
            ) from None

    def _append(self, data: dict[str, Any]) -> None:
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.write(json.dumps(data).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}.") from None

    def _whole_lines(self) -> list[bytes]:
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):  # the process before died in the middle of a line
            self._file.truncate(len(whole))
        return whole.splitlines()


@contextmanager
def open_journal(path: Path, head: dict[str, Any]) -> Iterator[Journal]:
    """A journal that only this process writes to."""
    try:
        file = open(path, "a+b")  # noqa: SIM115  # closed below
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from None
    with file:
        if not taken(file):
            raise StorageError(f"{path} is in use by another process; wait for it to end.")
        yield Journal(file, head, path)


def _parsed(line: bytes, path: Path) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise FormatError(f"{path} is damaged: a line in it is not JSON. Remove it to begin anew.")
    return data


def _check_head(found: dict[str, Any], head: dict[str, Any], path: Path) -> None:
    if found.get("formwright_journal") != JOURNAL_VERSION:
        raise FormatError(f"{path} is not a journal of version {JOURNAL_VERSION}.")
    for key, value in head.items():
        if found.get(key) != value:
            raise StorageError(
                f"{path} holds measurements of another {key}; choose another --out, or remove it."
            )
