"""Folders and files that one process at a time works in; the system lets go when it dies."""

import fcntl
import os
import socket
import time
from pathlib import Path
from typing import IO, Any

from formwright.errors import StorageError


class Lock:
    """Held by the one process that works in a folder, through a file ``.lock`` in it."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file = open(folder / ".lock", "a+", encoding="utf-8")  # noqa: SIM115  # held open
        except OSError as error:
            raise StorageError(f"{folder} cannot be written to: {error.strerror}.") from None
        if not taken(self._file):
            self._file.close()
            raise StorageError(
                f"{folder} is in use by {holder(folder) or 'another process'}. "
                "Wait for it to end, or choose another folder."
            )
        self._file.truncate(0)
        started = time.strftime("%Y-%m-%d %H:%M:%S %Z")
        self._file.write(f"process {os.getpid()} on {socket.gethostname()} since {started}")
        self._file.flush()

    def close(self) -> None:
        """Let another process have the folder."""
        self._file.truncate(0)
        self._file.close()


def holder(folder: Path) -> str:
    """Who works in a folder now: process, machine and since when; empty when nobody does."""
    try:
        with open(folder / ".lock", encoding="utf-8") as file:
            if not taken(file, fcntl.LOCK_SH):
                return file.read().strip() or "another process"
    except OSError:
        pass
    return ""


def taken(file: IO[Any], how: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file until it is closed; False where another process has it."""
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
