"""One machine, many workers: what computes may do so beside others, what measures may not.

Workers hold a place in the room while they compute. One that measures closes the door, so that
nobody else comes in, waits until the room is empty, and has it for itself. The system opens the
door again when a process dies, however it dies.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def scratch() -> Path:
    """A folder of this user on the disk of this machine."""
    folder = Path(tempfile.gettempdir()) / f"formwright-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    owner = folder.lstat()
    if owner.st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to somebody else.")
    return folder


@contextmanager
def in_company(place: Path | None = None) -> Iterator[None]:
    """Compute beside others of this machine, but not while one of them measures."""
    with _opened(place, "door") as door, _opened(place, "room") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@contextmanager
def alone(place: Path | None = None) -> Iterator[None]:
    """Measure with this machine to oneself, as far as other workers go."""
    with _opened(place, "door") as door, _opened(place, "room") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX)
        yield


@contextmanager
def _opened(place: Path | None, name: str) -> Iterator[int]:
    """A file to lock; closing it lets go of the lock."""
    file = os.open((place or scratch()) / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield file
    finally:
        os.close(file)
