"""Files that are written whole or not at all."""

import os
import secrets
from pathlib import Path


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


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
