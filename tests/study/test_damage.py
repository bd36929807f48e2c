"""What a disk, another program or a power cut can do to a study, and what it says then."""

import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from tests.study.toy import archive, free, study

from formwright.errors import InputError, StorageError
from formwright.execute import search
from formwright.locks import Lock
from formwright.study import Study
from formwright.study.folder import check_disk, file_system
from formwright.study.rows import Addition, dumped
from formwright.study.schema import FORMAT_VERSION
from formwright.trial import Trial

ROOT = Path(__file__).parents[2]


def test_a_power_cut_loses_at_most_the_last_step(tmp_path: Path) -> None:
    """The log is cut at random bytes, as a disk would that had written only so much of it."""
    made = study(tmp_path / "s")
    search(made, free, trials=3)
    with made.coordinate() as store:
        # Everything so far goes to the main file, so that the log holds the steps below alone.
        store.database._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        log = Path(f"{store.path}-wal")
        sizes = [0]  # of the log after each step
        for number in range(3, 23):
            trial = Trial(number, {"a": number}, state="done", values={"loss": 1.0})
            store.step([], [Addition(trial, dumped(trial.decisions))], running=True)
            sizes.append(log.stat().st_size)
        database, written = store.path.read_bytes(), log.read_bytes()
    assert sizes == sorted(set(sizes))
    rng = random.Random(0)
    for _ in range(60):
        cut = rng.randrange(len(written) + 1)
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        (folder / "study.db").write_bytes(database)
        (folder / "study.db-wal").write_bytes(written[:cut])
        whole = sum(size <= cut for size in sizes[1:])  # steps that were written completely
        with Study.open(folder).coordinate() as store:
            trials = store.trials()
            assert store.database.intact() == "ok"
        assert len(trials) == 3 + whole
        assert all(trial.finished for trial in trials)


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no study: study\.db is missing"):
        Study.open(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"not a database at all" * 100, b"SQLite format 3\0" * 99]
)
def test_a_file_that_is_no_study_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "study.db").write_bytes(content)
    with pytest.raises(StorageError, match=r"study\.db") as caught:
        Study.open(tmp_path)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "study.db").read_bytes() == content


def test_a_foreign_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "study.db")
    other.execute("CREATE TABLE theirs (x)")
    other.commit()
    other.close()
    before = (tmp_path / "study.db").read_bytes()
    with pytest.raises(StorageError, match="is not a study of formwright"):
        Study.open(tmp_path)
    assert (tmp_path / "study.db").read_bytes() == before
    with pytest.raises(StorageError, match="something else"):
        study(tmp_path)


def test_a_newer_format_is_refused_with_both_versions(tmp_path: Path) -> None:
    study(tmp_path).close()
    other = sqlite3.connect(tmp_path / "study.db")
    other.execute("PRAGMA user_version = 7")
    other.close()
    before = (tmp_path / "study.db").read_bytes()
    with pytest.raises(
        StorageError, match=f"version 7; this program knows version {FORMAT_VERSION}"
    ):
        Study.open(tmp_path)
    assert (tmp_path / "study.db").read_bytes() == before


def test_a_damaged_record_never_gives_a_traceback(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    search(made, free, trials=40)
    made.close()
    good = (tmp_path / "s" / "study.db").read_bytes()
    rng = random.Random(1)
    for _ in range(40):
        bad, at = bytearray(good), rng.randrange(len(good))
        bad[at : at + 200] = rng.randbytes(min(200, len(bad) - at))
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        (folder / "study.db").write_bytes(bad)
        with suppress(StorageError):  # or nothing that is read was hit
            opened = Study.open(folder)
            opened.trials, opened.state, opened.front  # noqa: B018


def test_a_creation_cut_short_can_be_repeated(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "study.db").execute("PRAGMA journal_mode = WAL")
    with pytest.raises(StorageError, match="never completely created"):
        Study.open(tmp_path)
    assert search(study(tmp_path), free, trials=2) == "trials"


def test_a_second_search_in_the_folder_is_refused_with_who_is_there(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    lock = Lock(made.folder)
    with pytest.raises(StorageError, match=rf"in use by process {os.getpid()} on .* since 2"):
        search(made, free, trials=1)
    assert made.state.coordinator.startswith(f"process {os.getpid()} on ")
    lock.close()
    assert made.state.coordinator == ""
    search(made, free, trials=1)


def test_a_network_file_system_is_refused(tmp_path: Path) -> None:
    mounts = "22 1 8:1 / / rw - ext4 /dev/sda rw\n30 22 0:5 / {} rw - {} server:/x rw\n"
    for kind in ("nfs4", "lustre", "fuse.sshfs"):
        with pytest.raises(StorageError, match=rf"network file system \({kind}\)"):
            check_disk(tmp_path, mounts=mounts.format(tmp_path.parent, kind))
    check_disk(tmp_path, mounts=mounts.format("/elsewhere", "nfs4"))
    assert file_system(tmp_path, mounts.format(tmp_path, "xfs")) == "xfs"


def test_a_disk_too_small_for_the_search_is_refused_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"MB of free space; the record of \d+ more trials"):
        check_disk(tmp_path, trials=10**12)


FULL = """
import resource, sys
from pathlib import Path
from tests.study.toy import free
from formwright.errors import StorageError
from formwright.execute import search
from formwright.study import Study
study = Study.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    search(study, free, trials=400)
except StorageError as error:
    print(error)
    sys.exit(2)
"""


def test_a_full_disk_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    whole = study(tmp_path / "whole")
    search(whole, free, trials=60)
    for room in (50_000, 150_000, 250_001):
        made = study(tmp_path / f"s{room}")
        search(made, free, trials=5)
        words = [sys.executable, "-c", FULL, str(made.folder), str(room)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 2, done.stderr
        assert "study.db cannot be written" in done.stdout
        assert "Free some space" in done.stdout
        reached = len(Study.open(made.folder).trials)
        assert reached >= 5
        search(made, free, trials=max(60, reached))
        assert archive(made)[:60] == archive(whole)
        with made.coordinate() as store:
            assert store.database.intact() == "ok"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


READ_ONLY = """
import os, sys
from tests.study.toy import free
from formwright.errors import StorageError
from formwright.execute import search
from formwright.strategy.blackbox import strategy_names
from formwright.study import Study
strategy_names()  # all of it is imported now, so that the interpreter's files need not be readable
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
study = Study.open(sys.argv[1])
print(len(study.trials), study.state.done, len(study.front) > 0)
try:
    search(study, free, trials=400)
except StorageError as error:
    print(error)
"""


def test_a_folder_that_may_only_be_read_can_be_read(tmp_path: Path) -> None:
    base = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        made = study(base / "s")
        search(made, free, trials=5)
        made.close()
        os.chmod(base, 0o755)
        os.chmod(made.folder, 0o555)
        words = [sys.executable, "-c", READ_ONLY, str(made.folder)]
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/"}
        done = subprocess.run(
            words, cwd=ROOT, capture_output=True, text=True, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        assert first == "5 5 True"
        assert "cannot be written to: Permission denied" in second
    finally:
        os.chmod(base / "s", 0o755)
        shutil.rmtree(base)
