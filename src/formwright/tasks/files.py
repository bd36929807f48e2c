"""Files of the user: found, opened and read, with a clear word where something is wrong."""

import codecs
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from formwright.errors import InputError
from formwright.tasks.cache import file_digest

SPLITS = ("train", "valid", "test")
FILES_VERSION = 2  # raised when files are read in another way, so that prepared data is made again
_WORDS = {
    "train": ("train", "training"),
    "valid": ("valid", "dev", "validation", "val"),
    "test": ("test",),
}
_PACKED: dict[str, Callable[[bytes], bytes]] = {".xz": lzma.decompress, ".gz": gzip.decompress}
_FEWEST = 3  # rows that can be split in three
Item = TypeVar("Item")


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .xz or .gz."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    unpack = _PACKED.get(path.suffix.lower())
    if unpack is None:
        return raw
    try:
        return unpack(raw)
    except (lzma.LZMAError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is damaged or not {path.suffix[1:]}: {error}.") from None


def read_text(path: Path) -> str:
    """The text of a file, which must be UTF-8 (or marked as UTF-16) and not empty."""
    raw = read_bytes(path)
    marked = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = raw.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path.name}: byte {error.start} (line {line}) is not UTF-8. Save the file as UTF-8; "
            f"if it is Latin-1: iconv -f latin1 -t utf-8 {path.name} > new-{path.name}"
        ) from None
    if not text.strip():
        raise InputError(f"{path} is empty.")
    return text


def read_lines(path: Path) -> list[str]:
    """The lines of a text; other marks that Python takes for a line's end are left alone."""
    text = read_text(path).replace("\r\n", "\n")
    lines = (text if "\n" in text else text.replace("\r", "\n")).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def suffix_of(path: Path) -> str:
    """What kind of file it is, packed or not: ``.csv`` for data.csv.xz."""
    name = path.name.lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    return Path(name).suffix


# --- splits -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Sources:
    """Where each split lies. Without ``valid`` or ``test`` they are cut from ``train``."""

    paths: dict[str, Path]

    @property
    def digest(self) -> dict[str, str]:
        """What the files hold, and how they are read; folders by all files in them."""
        return {s: f"{suffix_of(path)} {_digest(path)}" for s, path in self.paths.items()}

    @property
    def words(self) -> str:
        """How the data was split, for people."""
        if set(self.paths) == {"train"}:
            return "one file, split 90/5/5 by the content of each row"
        if "valid" not in self.paths:
            return "5 % of the training rows, by their content, are set aside for validation"
        return "as given"


def find_splits(
    path: Path, suffixes: Sequence[str], valid: str | None = None, test: str | None = None
) -> Sources:
    """The files of each split.

    ``path`` is a folder with files named train, valid (or dev), test; or one such file, whose
    siblings are then found; or a single file, which is split later.
    """
    if path.is_dir():
        found = _in_folder(path, suffixes)
    elif path.is_file():
        found = {"train": path} | _siblings(path)
    else:
        raise InputError(f"{path} does not exist.")
    for split, given in (("valid", valid), ("test", test)):
        if given is not None:
            found[split] = Path(given).expanduser()
            if not found[split].exists():
                raise InputError(f"{found[split]} does not exist.")
    return Sources({split: found[split] for split in SPLITS if split in found})


def split_of(name: str) -> tuple[str, str] | None:
    """Which split a file or folder name speaks of, and the rest of the name."""
    stem, dot, rest = name.partition(".")
    for split, words in _WORDS.items():
        for word in words:
            if stem.lower() == word or stem.lower().endswith((f"_{word}", f"-{word}", f".{word}")):
                return split, stem[: len(stem) - len(word)] + dot + rest
    return None


def _in_folder(folder: Path, suffixes: Sequence[str]) -> dict[str, Path]:
    files = sorted(p for p in folder.iterdir() if p.is_file() and suffix_of(p) in suffixes)
    if not files:
        raise InputError(f"{folder} holds no file that ends in {', '.join(suffixes)}.")
    found: dict[str, Path] = {}
    for file in files:
        named = split_of(file.name)
        if named is None:
            continue
        split = named[0]
        if split in found:
            raise InputError(
                f"{found[split].name} and {file.name} could both be the {split} split of {folder}. "
                "Name the training file itself instead of the folder."
            )
        found[split] = file
    if not found and len(files) == 1:
        return {"train": files[0]}
    if "train" not in found:
        names = ", ".join(file.name for file in files[:6])
        raise InputError(f"{folder} has no training data: it holds {names}, but no train file.")
    return found


def _siblings(path: Path) -> dict[str, Path]:
    named = split_of(path.name)
    if named is None or named[0] != "train":
        return {}
    found: dict[str, Path] = {}
    for other in sorted(path.parent.iterdir()):
        theirs = split_of(other.name)
        if theirs is not None and other.is_file() and other != path and theirs[1] == named[1]:
            found.setdefault(theirs[0], other)
    found.pop("train", None)
    return found


def _digest(path: Path) -> str:
    try:
        if path.is_file():
            return file_digest(path)
        whole = hashlib.sha256()
        for file in sorted(p for p in path.rglob("*") if p.is_file()):
            whole.update(f"{file.relative_to(path)}\0{file_digest(file)}\n".encode())
        return whole.hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def deal(rows: list[Item], content: Callable[[Item], str], shares: dict[str, int]) -> list[str]:
    """Which split each row goes to: ``shares`` are per cent, the rest is training.

    A row's content decides, so equal rows stay together and new rows never move old ones. Where
    that leaves a split empty (few rows), it gets one row.
    """
    if len(rows) < _FEWEST:
        raise InputError(f"{len(rows)} rows are too few to split; at least {_FEWEST} are needed.")
    marks = [int.from_bytes(hashlib.sha256(content(row).encode()).digest()[:8]) for row in rows]
    dealt = []
    for mark in marks:
        place, at = mark * 100 >> 64, 0
        dealt.append("train")
        for split, share in shares.items():
            if at <= place < at + share:
                dealt[-1] = split
            at += share
    order = sorted(range(len(rows)), key=lambda row: (marks[row], row))
    for split in (*shares, "train"):
        if split not in dealt:
            counts = {name: dealt.count(name) for name in dealt}
            dealt[next(row for row in order if counts[dealt[row]] > 1)] = split
    return dealt


def fill_splits(
    known: dict[str, list[Item]], content: Callable[[Item], str]
) -> dict[str, list[Item]]:
    """The splits, with what is missing cut from the training rows."""
    if "valid" in known:
        return known
    shares = {"valid": 5} if "test" in known else {"valid": 5, "test": 5}
    made: dict[str, list[Item]] = {split: [] for split in ("train", *shares)}
    for row, split in zip(known["train"], deal(known["train"], content, shares), strict=True):
        made[split].append(row)
    return made | {split: rows for split, rows in known.items() if split != "train"}
