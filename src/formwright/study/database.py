"""Opening a study's SQLite file, and saying clearly what is wrong when it will not do.

The journal is write-ahead (WAL): a commit is one append and one fsync, and those who read neither
wait for those who write nor hold them up. Each step of a search is one immediate transaction, so a
process killed at any moment leaves the step before or the step after, never half of one.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from formwright.errors import InputError, NoRoom, StorageError
from formwright.study.schema import APPLICATION, FORMAT_VERSION, RULES, TABLES

_PATIENCE = 60.0  # seconds to wait for another process's commit; each takes milliseconds


class Outdated(StorageError):
    """The record is of an earlier format; ``migrate.upgrade`` brings it up to date."""


class Database:
    """One connection to a study's file.

    Args:
        path: The file; it must hold a study.
        readonly: For looking only: nothing is written, not even by mistake.
    """

    def __init__(self, path: Path, readonly: bool = False) -> None:
        if not path.exists():
            raise InputError(f"{path.parent} holds no study: {path.name} is missing.")
        self.path = path
        self._connection = connect(path, readonly)
        try:
            with self.explained():
                self._check()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All of what happens inside, or nothing."""
        with self.explained():
            self._undo()
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._undo()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One moment of the study, however much is written meanwhile."""
        with self.explained():
            self._undo()
            try:
                self._connection.execute("BEGIN")
                yield self._connection
            finally:
                self._undo()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what SQLite says into one sentence with the path and what to do."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as error:
            raise trouble(self.path, error) from error

    def tidy(self) -> None:
        """Move the log into the main file as far as readers allow: a copy of it is then whole."""
        with self.explained():
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def intact(self) -> str:
        """``ok``, or what SQLite's own check finds wrong with the file."""
        with self.explained():
            return str(self._connection.execute("PRAGMA integrity_check").fetchone()[0])

    def _undo(self) -> None:
        """Leave a transaction, also one that Ctrl-C cut short before anything was done in it."""
        if self._connection.in_transaction:  # SQLite has undone it already on a full disk
            self._connection.execute("ROLLBACK")

    def _check(self) -> None:
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION:
            raise StorageError(
                f"{self.path} is not a study of formwright (or was never completely created). "
                "Choose the right folder, or move that file away."
            )
        if version > FORMAT_VERSION:
            raise StorageError(
                f"{self.path} is written in format version {version}; this program knows "
                f"version {FORMAT_VERSION} and has changed nothing. Use a newer formwright."
            )
        if version < FORMAT_VERSION:
            raise Outdated(f"{self.path} is written in the earlier format version {version}.")


def create(path: Path, meta: dict[str, str]) -> None:
    """Make a new study's file: all of it, or nothing that counts as a study."""
    connection = connect(path, readonly=False, new=True)
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if application == APPLICATION:
            raise InputError(
                f"{path.parent} already holds a study. Open it to continue, or choose another "
                "folder."
            )
        if tables or application:
            raise StorageError(f"{path} is something else, not a study; choose another folder.")
        statements = [f"PRAGMA application_id = {APPLICATION}"]
        statements.append(f"PRAGMA user_version = {FORMAT_VERSION}")
        connection.executescript("BEGIN IMMEDIATE;" + ";".join(statements) + ";" + TABLES + RULES)
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise trouble(path, error) from error
    finally:
        connection.close()


def connect(path: Path, readonly: bool, new: bool = False) -> sqlite3.Connection:
    """A connection to a file, with the journal that a study needs."""
    mode = "ro" if readonly else "rwc" if new else "rw"
    try:
        connection = _opened(path, f"mode={mode}")
        if readonly:
            return connection
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # survives power loss, not kills alone
        return connection
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if readonly and not Path(f"{path}-wal").exists():
            # A folder that may not be written to: nobody writes, so nobody needs to be watched.
            try:
                return _opened(path, "immutable=1")
            except (sqlite3.Error, UnicodeDecodeError):
                pass
        raise trouble(path, error) from error


def _opened(path: Path, options: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{options}",
        uri=True,
        timeout=_PATIENCE,
        isolation_level=None,  # transactions are begun by hand
        check_same_thread=False,  # each is used by one thread at a time
    )
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


def trouble(path: Path, error: Exception) -> StorageError:
    """What SQLite says, as an exception of ours."""
    name = str(getattr(error, "sqlite_errorname", ""))
    kind = NoRoom if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")) else StorageError
    return kind(explain(path, error))


def explain(path: Path, error: Exception) -> str:
    """What SQLite says, in one sentence with the path and what to do."""
    name, said = getattr(error, "sqlite_errorname", ""), str(error)
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return (
            f"{path} cannot be written: {said}. The disk is full or failing; what was recorded "
            "before is intact. Free some space (100 MB will do) and start again to continue."
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return f"{path} cannot be opened for writing: {said}. Check the permissions of its folder."
    if not name or name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return (
            f"{path} is damaged or not a study: {said}. Restore it from a copy, "
            "or choose another folder."
        )
    if name.startswith("SQLITE_BUSY"):
        return f"{path} has been kept locked by another program for {_PATIENCE:.0f} s. Close it."
    return f"{path} cannot be used as a study: {said}."
