"""Prepared data on disk: found by what it was made from, checked before it is used.

An entry is one file: a line that names the format, a manifest (JSON) with the SHA-256 of every
array, and the arrays, which are memory-mapped. It is written whole or not at all. An entry that
is cut short or changed in a single bit is made again.
"""

import hashlib
import json
import logging
import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from formwright.files import write_atomically

_log = logging.getLogger(__name__)
_MAGIC = b"formwright data 1\n"
_HEAD = struct.Struct("<Q32s")  # bytes of the manifest, and its SHA-256
_ALIGN = 64
_DAY = 86_400
_DTYPES = ("|u1", "<u2", "<u4", "<i4", "<i8", "<f4", "<f8")


@dataclass
class Stored:
    """Arrays by name, and what else must be known about them (plain JSON)."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, rows: Iterable[Iterable[int]], dtype: np.dtype[Any]) -> None:
        """Keep rows of different length under one name."""
        parts = [np.asarray(row, dtype=dtype) for row in rows]
        self.arrays[name] = np.concatenate(parts) if parts else np.empty(0, dtype)
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        self.arrays[f"{name}@"] = np.concatenate((np.zeros(1, np.int64), ends))

    def add_texts(self, name: str, texts: Iterable[str]) -> None:
        """Keep texts under one name."""
        rows = (np.frombuffer(text.encode(errors="replace"), np.uint8) for text in texts)
        self.add(name, rows, np.dtype(np.uint8))

    def ragged(self, name: str) -> "Ragged":
        """The rows kept by ``add``."""
        return Ragged(self.arrays[name], self.arrays[f"{name}@"])


@dataclass(frozen=True)
class Ragged:
    """Rows of different length, one after the other in a flat array."""

    values: np.ndarray
    offsets: np.ndarray  # (rows + 1,)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """How long each row is."""
        return np.diff(self.offsets)

    def text(self, row: int) -> str:
        """A row that was kept by ``Stored.add_texts``."""
        return bytes(self[row]).decode()

    def padded(self, rows: np.ndarray, fill: int) -> tuple[np.ndarray, np.ndarray]:
        """These rows as a matrix of whole numbers, and which of its places are real."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        places = np.arange(max(1, lengths.max(initial=0)))
        real = places < lengths[:, None]
        if len(self.values) == 0:
            return np.full(real.shape, fill, np.int64), real
        found = self.values[np.minimum(starts[:, None] + places, len(self.values) - 1)]
        return np.where(real, found, fill).astype(np.int64), real


def small_dtype(symbols: int) -> np.dtype[Any]:
    """The smallest type that holds ``symbols`` different numbers."""
    return np.dtype(np.uint8 if symbols <= 2**8 else np.uint16 if symbols <= 2**16 else np.uint32)


def cache_folder() -> Path:
    """Where prepared data is kept: ``FORMWRIGHT_CACHE``, or ``~/.cache/formwright``."""
    given = os.environ.get("FORMWRIGHT_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "formwright"


def file_digest(path: Path) -> str:
    """SHA-256 of a file as it lies on disk."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached(kind: str, settings: Mapping[str, Any], build: Callable[[], Stored]) -> Stored:
    """What ``build`` makes, or made before with the same settings.

    ``settings`` must hold everything that decides the result, the digests of files among it.
    """
    known = json.dumps(settings, sort_keys=True)
    key = hashlib.sha256(_MAGIC + f"{kind}\n{known}".encode()).hexdigest()
    try:
        path = cache_folder() / f"{kind}-{key[:40]}.data"
        if path.is_file():
            found = _read_checked(path)
            if found is not None:
                return found
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        _log.warning("The data cache cannot be used (%s); the data stays in memory.", error)
        return build()
    made = build()
    return _write_and_map(path, made)


def _read_checked(path: Path) -> Stored | None:
    try:
        return read_entry(path)
    except (ValueError, KeyError, TypeError, OSError) as error:
        _log.warning("The data cache %s is damaged (%s) and is made again.", path, error)
        return None


def read_entry(path: Path) -> Stored:
    """Map an entry after checking every byte of it; ``ValueError`` when anything is wrong."""
    whole = np.memmap(path, np.uint8, mode="r")
    start = len(_MAGIC) + _HEAD.size
    if len(whole) < start or bytes(whole[: len(_MAGIC)]) != _MAGIC:
        raise ValueError("it does not begin as it should")
    length, digest = _HEAD.unpack(bytes(whole[len(_MAGIC) : start]))
    text = bytes(whole[start : start + length])
    if hashlib.sha256(text).digest() != digest:
        raise ValueError("its manifest was changed")
    manifest = json.loads(text)
    body = start + length + _gap(start + length)
    if len(whole) != body + manifest["bytes"]:
        raise ValueError("its size is wrong")
    arrays = {}
    for item in manifest["arrays"]:
        part = whole[body + item["offset"] : body + item["offset"] + item["bytes"]]
        if item["dtype"] not in _DTYPES or _digest(part) != item["sha256"]:
            raise ValueError(f"the array {item['name']} was changed")
        # asarray: a plain view is quicker to index than the memmap class
        arrays[item["name"]] = np.asarray(part).view(item["dtype"]).reshape(item["shape"])
    return Stored(arrays, manifest["meta"])


def write_entry(path: Path, stored: Stored) -> None:
    """Write an entry whole or not at all; writers of the same entry do not disturb each other."""
    items, offset = [], 0
    arrays = {name: np.ascontiguousarray(array) for name, array in stored.arrays.items()}
    for name, array in arrays.items():
        assert array.dtype.str in _DTYPES, array.dtype
        items.append(
            {
                "name": name,
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "offset": offset,
                "bytes": array.nbytes,
                "sha256": _digest(array),
            }
        )
        offset += array.nbytes + _gap(array.nbytes)
    text = json.dumps({"arrays": items, "meta": stored.meta, "bytes": offset}).encode()
    head = _MAGIC + _HEAD.pack(len(text), hashlib.sha256(text).digest()) + text
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    parts: list[bytes | memoryview] = [head, bytes(_gap(len(head)))]
    for array in arrays.values():
        parts += [array.reshape(-1).view(np.uint8).data, bytes(_gap(array.nbytes))]
    write_atomically(path, *parts)


def _write_and_map(path: Path, made: Stored) -> Stored:
    """Keep ``made`` on disk and hand out the mapped arrays, so that memory is given back."""
    try:
        write_entry(path, made)
        return read_entry(path)
    except (OSError, ValueError) as error:
        size = sum(array.nbytes for array in made.arrays.values())
        _log.warning(
            "The data cache %s cannot be written (%s; %d bytes are needed); the data stays in "
            "memory. Set FORMWRIGHT_CACHE to a folder with room.",
            path,
            error,
            size,
        )
        return made


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _gap(size: int) -> int:
    """Bytes to the next place where an array may begin."""
    return -size % _ALIGN


def _sweep(folder: Path) -> None:
    """Remove what writers that were killed left behind long ago."""
    for left in folder.glob(".*.data.*.tmp"):
        try:
            if time.time() - left.stat().st_mtime > _DAY:
                left.unlink()
        except OSError:
            continue  # another process was quicker
