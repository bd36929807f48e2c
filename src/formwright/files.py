"""Files that are written whole or not at all, and read with one clear sentence if they cannot."""

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any

from formwright.errors import FormatError, InputError, NoRoom, StorageError

SEALS = ".sha256.json"
WANT_OF_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FAILING = {errno.EROFS, errno.EIO}
_CLOSED = {errno.EACCES, errno.EPERM}
_SAID = ("No space left on device", "Disk quota exceeded", "File too large")  # by other libraries


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
    except OSError as error:
        if error.errno in WANT_OF_SPACE:
            raise NoRoom(_room_wanted(path, sum(map(len, parts)), error)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_sealed(path: Path, *parts: bytes | memoryview) -> None:
    """The same, with its SHA-256 in a file ``.sha256.json`` beside it.

    That names the new hash before the new file is there, and keeps the old one, so that a crash
    between the two leaves a file that is believed.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    known = _seals(path.parent)
    before, new = known.get(path.name, [])[-1:], digest.hexdigest()
    if before != [new]:  # else a crash came in between: the file may still be the one before
        known[path.name] = [*before, new]
        write_atomically(path.parent / SEALS, json.dumps(known, indent=1).encode())
    write_atomically(path, *parts)


def check_sealed(path: Path) -> None:
    """Refuse a file that is no longer what was written; one without a hash is believed."""
    known = _seals(path.parent).get(path.name)
    if not known:
        return
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found not in known:
        raise StorageError(
            f"{path} is damaged: it does not match its SHA-256 in {SEALS}. Restore it from a copy, "
            "or delete it, if it can be made again; what you changed by hand needs its line there "
            "deleted."
        )


def _seals(folder: Path) -> dict[str, list[str]]:
    """The hashes of a folder's files; none where there is no such file, or it makes no sense."""
    try:
        found = json.loads((folder / SEALS).read_bytes())
        return {str(k): [str(each) for each in v] for k, v in found.items()}
    except (OSError, ValueError, RecursionError, AttributeError, TypeError):
        return {}


def write_json(path: Path, data: Any) -> None:
    """Write a JSON document, whole or not at all, without the name of the home folder."""
    write_atomically(path, discreet(json.dumps(data, indent=1, ensure_ascii=False)).encode())


def _room_wanted(path: Path, needed: int, error: OSError) -> str:
    return (
        f"{path} has no room for {needed:,} bytes: {error.strerror}{_free(path)}. What was there "
        "before is intact; free some space and run the same command again."
    )


def disk_trouble(error: BaseException, folder: Path) -> str:
    """What is wrong with the disk, in a few words, where that is why something failed; else empty.

    Args:
        error: What was raised; what it was raised from is looked at too.
        folder: What we write ourselves lies below it: being refused there is trouble, elsewhere it
            is the caller's own affair.
    """
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    for link in chain:
        code = link.errno if isinstance(link, OSError) else None
        name = str(getattr(link, "sqlite_errorname", None) or "")
        if code == errno.EFBIG:
            return "a file is as large as this process may write one (see `ulimit -f`)"
        if code in WANT_OF_SPACE or name.startswith("SQLITE_FULL") or _says_full(link):
            return f"there is no room left on its disk{_free(folder)}"
        if code in _FAILING or name.startswith("SQLITE_IOERR"):
            return f"its disk cannot be used ({getattr(link, 'strerror', None) or link})"
        if code in _CLOSED and _below(getattr(link, "filename", None), folder):
            return f"{link.filename} may not be written ({link.strerror})"  # type: ignore[attr-defined]
    return ""


def _says_full(error: BaseException) -> bool:
    """Libraries that are not written in Python tell it in words."""
    return not isinstance(error, OSError) and any(words in str(error) for words in _SAID)


def _below(name: Any, folder: Path) -> bool:
    if not isinstance(name, str):
        return False
    return Path(os.path.abspath(name)).is_relative_to(os.path.abspath(folder))


def _free(path: Path) -> str:
    """How much is free where a path lies, for messages."""
    for place in (path, *path.parents):
        try:
            return f" ({shutil.disk_usage(place).free:,} bytes are free)"
        except OSError:
            continue
    return ""


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
