"""The folder of a study: where things lie, who works in it, whether its disk will do.

study.db            the record: see schema.py
study.db-wal, -shm  SQLite's own, there while somebody has the record open
trials/000012/      files of one trial: checkpoints, logs, error.txt where it failed
.lock               held by the process that coordinates the search
"""

import os
import shutil
from pathlib import Path

from formwright.errors import StorageError

# Shared by several machines: file locks and memory maps do not hold there, SQLite would break.
_SHARED = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "gpfs", "beegfs", "ceph", "afs"}
_SHARED |= {"glusterfs", "fuse.glusterfs", "fuse.sshfs", "fuse.ceph", "fuse.s3fs", "ocfs2", "gfs2"}
_TRIAL_BYTES = 16_384  # a row of the record and its share of the log, with room to spare
SPARE_BYTES = 16 << 20  # free at least, before a session begins


def record_path(folder: Path) -> Path:
    """The file that holds the trials."""
    return folder / "study.db"


def trial_folder(folder: Path, number: int) -> Path:
    """Where the files of a trial go. It is not made here: most trials of a search have none."""
    return folder / f"trials/{number:06d}"


def check_disk(folder: Path, trials: int = 0, mounts: str | None = None) -> None:
    """Refuse a disk that several machines share, and one too full for ``trials`` more trials."""
    kind = file_system(folder, mounts)
    if kind in _SHARED:
        raise StorageError(
            f"{folder} is on a network file system ({kind}), where a study can be damaged. "
            "Choose a folder on a local disk; copy it to the network when the search has ended."
        )
    needed, free = SPARE_BYTES + trials * _TRIAL_BYTES, shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"{folder} has {free / 1e6:.0f} MB of free space; the record of {trials} more trials "
            f"may need {needed / 1e6:.0f} MB. Free some space, or choose another disk."
        )


def file_system(folder: Path, mounts: str | None = None) -> str:
    """The kind of file system a folder lies on, ``ext4`` say; empty where it cannot be told."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
    place, best, kind = os.path.realpath(folder) + "/", "", ""
    for line in mounts.splitlines():
        before, dash, after = line.partition(" - ")
        if not dash:
            continue
        mounted = before.split()[4].replace("\\040", " ").rstrip("/") + "/"
        if place.startswith(mounted) and len(mounted) >= len(best):
            best, kind = mounted, after.split()[0]
    return kind
