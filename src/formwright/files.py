"""Files that are written whole or not at all, and read with one clear sentence if they cannot."""

import json
import os
import re
import secrets
from pathlib import Path
from typing import Any

from formwright.errors import FormatError, InputError


def write_atomically(path: Path, *parts: bytes | memoryview) -> None:
    """Write the parts one after the other, so that a crash leaves the old file or the new one.

    They go to a temporary file beside it, named so that several writers do not disturb each other.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Write a JSON document, whole or not at all, without the name of the home folder."""
    write_atomically(path, discreet(json.dumps(data, indent=1, ensure_ascii=False)).encode())


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_text(path: Path, what: str, largest: int) -> str:
    """The text of a file that a user named.

    Args:
        path: Where it is.
        what: What it should hold, for messages: ``a target``.
        largest: Bytes above which it is surely something else.
    """
    try:
        if path.stat().st_size > largest:
            raise FormatError(f"{path} is larger than {largest:,} bytes, so it is not {what}.")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise FormatError(f"{path} is not UTF-8 text, so it is not {what}.") from None


def read_json(path: Path, what: str, largest: int) -> Any:
    """The same for a JSON document."""
    try:
        return json.loads(read_text(path, what, largest))
    except (ValueError, RecursionError):
        raise FormatError(f"{path} is not a JSON document, so it is not {what}.") from None


def discreet(text: str) -> str:
    """The same text without the name of the home folder; other folders' names stay whole."""
    home = str(Path.home())
    if len(home) < 2:
        return text
    before = r"(?:(?<![\w./~-])|(?<=\\[nrt]))"  # in JSON a line may begin behind \\n
    return re.sub(rf"{before}{re.escape(home)}(?!\.?[\w-])", "~", text)
