"""Byte-level language modelling on the source of the Python standard library.

Every machine that runs this has it. Which split a file belongs to follows from its name, so it is
the same on every machine, as far as the versions of Python agree. Packages of tests, which some
systems leave out, are not read. Files are separated by a zero byte.
"""

import hashlib
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from formwright.errors import InputError
from formwright.tasks.base import Task
from formwright.tasks.cache import Stored, cached
from formwright.tasks.guide import Guide, option
from formwright.tasks.lm import LanguageTask, MaskedTask, encode_streams
from formwright.tasks.registry import Options, task
from formwright.tasks.text import Bytes, Tokenizer, restore

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo"}
_LEFT_OUT |= {"__pycache__", "ensurepip", "pydoc_data"}


@dataclass(frozen=True, kw_only=True)
class StdlibOptions(Options):
    """Bytes that are read at once, and bytes that are measured on."""

    length: int = option(256, "Bytes that are read at once.")
    valid: int = option(200_000, "Bytes of the validation part.")
    test: int = option(200_000, "Bytes of the test part.")


_GUIDE = Guide(
    {"bits_per_byte": "Less is better."},
    splits="By the name of each file: 90 % training; valid and test are cut to a fixed size.",
)


@task(
    "stdlib", "the next byte of the Python standard library's source", StdlibOptions, guide=_GUIDE
)
def stdlib(name: str, options: StdlibOptions) -> Task:
    """The standard library as text."""
    return LanguageTask(name, options.length, *_library(options, ()))


@task(
    "stdlib-masked",
    "hidden bytes of the Python standard library's source",
    StdlibOptions,
    guide=_GUIDE,
)
def masked(name: str, options: StdlibOptions) -> Task:
    """The same text for encoders, which see both sides of what they guess."""
    return MaskedTask(name, options.length, *_library(options, ("mask",)))


def _library(options: StdlibOptions, specials: tuple[str, ...]) -> tuple[Stored, Tokenizer, str]:
    parts = library_parts(Path(sysconfig.get_paths()["stdlib"]), options)
    digests = {split: hashlib.sha256(part).hexdigest() for split, part in parts.items()}
    version = ".".join(map(str, sys.version_info[:3]))
    settings = {"version": 1, **digests, **({"specials": specials} if specials else {})}
    notes = (f"Python {version}",)
    stored = cached("stdlib", settings, lambda: encode_streams(parts, Bytes(specials), notes))
    words = "by the name of each file: 90 % training, valid and test cut to a fixed size"
    return stored, restore(stored.meta["tokenizer"]), words


def library_parts(folder: Path, options: StdlibOptions) -> dict[str, bytes]:
    """The text of each split."""
    parts: dict[str, list[bytes]] = {"train": [], "valid": [], "test": []}
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(folder)
        if _LEFT_OUT.intersection(inside.parts) or any("config-" in p for p in inside.parts):
            continue
        parts[split_of_file(inside.as_posix())].append(path.read_bytes() + b"\0")
    found = {split: b"".join(files) for split, files in parts.items()}
    found["valid"], found["test"] = found["valid"][: options.valid], found["test"][: options.test]
    if min(map(len, found.values())) < 2:
        raise InputError(f"{folder} holds no source of the standard library to learn from.")
    return found


def split_of_file(name: str) -> str:
    """The split that a file of this name belongs to."""
    mark = hashlib.sha256(name.encode()).digest()[0]
    return "valid" if mark < 13 else "test" if mark < 26 else "train"  # 13 of 256 are 5 %
