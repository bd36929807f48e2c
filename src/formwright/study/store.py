"""Trials in a study's file: added, handed out under a lease, finished once.

Who works on a trial holds a claim: a token and a lease. The token is raised whenever the trial
changes hands, so the late result of a worker that was thought dead is refused. The lease ends
unless it is renewed. It is measured in monotonic seconds, which all processes of one machine
share and which no change of the clock or of daylight saving moves; they begin anew with each boot,
so the id of the boot is kept beside them, and a lease of an earlier boot has ended.

A worker that was lost is no fault of the trial: it waits again. Three times over one trial may be
its doing, so from then on it is tried alone, while nobody else works on any; ``execute.processes``
says when it has failed.
"""

import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.errors import InputError, StorageError
from formwright.study.checking import check_trial
from formwright.study.database import Database
from formwright.study.rows import ADD, COLUMNS, FINISH, Addition, add_row, finish_row, trials_of
from formwright.trial import Trial

ALONE = 3  # workers lost over a trial, after which it is tried while no other one is


@dataclass(frozen=True)
class Claim:
    """The right to finish a trial."""

    number: int
    token: int
    worker: str


class Store:
    """The record of a study. Safe for many processes at once.

    Args:
        path: A file made by ``database.create``.
        readonly: For looking only.
    """

    def __init__(self, path: Path, readonly: bool = False) -> None:
        self.path = path
        self.database = Database(path, readonly)
        self._boot = boot_id()
        # How long the study had been worked on before, and when work began this time.
        self.clock_base, self.clock_start = 0.0, time.monotonic()

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()

    # ------------------------------------------------------------------------------- reading

    def meta(self) -> dict[str, Any]:
        """What the study was begun with."""
        with self.database.reading() as connection:
            rows = connection.execute("SELECT key, value FROM meta").fetchall()
        try:
            return {key: json.loads(value) for key, value in rows}
        except (ValueError, TypeError, RecursionError) as error:
            raise StorageError(f"{self.path} is damaged: its meta data: {error}.") from None

    def trials(self, start: int = 0) -> list[Trial]:
        """Every trial from number ``start`` on."""
        return self._select("number >= ? ORDER BY number", (start,))

    def trials_at(self, numbers: Iterable[int]) -> list[Trial]:
        """The trials of these numbers."""
        found = [self._select("number = ?", (number,)) for number in numbers]
        return [trial for trials in found for trial in trials]

    def notation(self, number: int) -> str:
        """The architecture of a trial in words."""
        query = "SELECT notation FROM trials WHERE number = ?"
        with self.database.reading() as connection:
            row = connection.execute(query, (number,)).fetchone()
        if row is None:
            raise InputError(f"{self.path.parent} has no trial {number}.")
        return str(row[0])

    def counts(self) -> dict[str, int]:
        """How many trials are in each state."""
        query = "SELECT state, count(*) FROM trials GROUP BY state"
        with self.database.reading() as connection:
            return dict(connection.execute(query).fetchall())

    def seconds(self) -> float:
        """How long the study has been worked on, up to the last trial that finished."""
        with self.database.reading() as connection:
            found = connection.execute("SELECT max(clock) FROM trials").fetchone()[0]
        return float(found) if isinstance(found, int | float) else 0.0  # text comes after numbers

    def events(self) -> list[dict[str, Any]]:
        """Who claimed, lost or was refused what, and when; oldest first."""
        query = "SELECT time, number, worker, what, detail FROM events ORDER BY id"
        with self.database.reading() as connection:
            rows = connection.execute(query).fetchall()
        names = ("time", "number", "worker", "what", "detail")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _select(self, where: str, values: tuple[Any, ...]) -> list[Trial]:
        with self.database.reading() as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM trials WHERE {where}", values)  # noqa: S608  # our own words
            found = rows.fetchall()
        try:
            trials = trials_of(found)
            for trial in trials:
                check_trial(trial)
            return trials
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            raise StorageError(f"{self.path} is damaged: a trial in it: {error}.") from None

    # ---------------------------------------------------------------------- the coordinator's

    def begin(self) -> list[int]:
        """Start a session: whoever still held a trial is dead or will be refused.

        Returns:
            Numbers of the trials taken back.
        """
        self.clock_base, self.clock_start = self.seconds(), time.monotonic()
        sealed = self.check_seal()
        with self.database.transaction() as connection:
            taken = connection.execute(_RUNNING).fetchall()
            suspect = self._suspect(connection)
            for number, worker in taken:
                _release(connection, number, lost=number == suspect)
                _log(connection, number, worker, "taken back", "a new session began")
            _log(connection, None, me(), "session began", f"boot {self._boot}")
            _log(connection, None, me(), "sealed", sealed)
        return [number for number, _ in taken]

    def check_seal(self) -> str:
        """See whether finished trials are still what they were when a session last sealed them.

        SQLite notices a torn page, but not a digit that a bad disk changed within one.

        Returns:
            The seal of all that have ended by now.
        """
        with self.database.reading() as connection:
            now = _seal(connection)
            row = connection.execute(
                "SELECT detail FROM events WHERE what = 'sealed' ORDER BY id DESC LIMIT 1"
            ).fetchone()
            if row is None or row[0] == now:
                return now
            count = str(row[0]).partition(" ")[0]
            same = count.isdigit() and _seal(connection, int(count)) == row[0]
        if not same:
            raise StorageError(
                f"{self.path} is damaged: the first {count} trials are no longer what they were "
                "when the last session sealed them. Restore the file from a copy, or begin anew in "
                "another folder; `formwright show` still reads it."
            )
        return now

    def take(self, numbers: Sequence[int]) -> None:
        """Say that this process works on open trials: it takes up what an earlier one left."""
        if not numbers:
            return
        with self.database.transaction() as connection:
            connection.executemany(
                "UPDATE trials SET state = 'running', worker = ? WHERE number = ? "
                "AND finished IS NULL",
                [(me(), number) for number in numbers],
            )

    def _suspect(self, connection: sqlite3.Connection) -> int | None:
        """The trial over which the last session died, if its own process evaluated it.

        One process evaluates trials in the order of their numbers. Workers have leases, and a
        session that ended, or that the machine's end cut short, is nobody's fault.
        """
        last = connection.execute(
            "SELECT what, detail FROM events WHERE what LIKE 'session %' ORDER BY id DESC LIMIT 1"
        ).fetchone()
        if last != ("session began", f"boot {self._boot}"):
            return None
        row = connection.execute(
            "SELECT min(number) FROM trials WHERE finished IS NULL AND state = 'running' "
            "AND expires IS NULL"
        ).fetchone()
        return None if row[0] is None else int(row[0])

    def end(self, why: str) -> None:
        """End a session: trials that nobody will finish now wait for the next one."""
        with self.database.transaction() as connection:
            _log(connection, None, me(), "sealed", _seal(connection))
            for number, worker in connection.execute(_RUNNING).fetchall():
                _release(connection, number)
                _log(connection, number, worker, "taken back", "the session ended")
            _log(connection, None, me(), "session ended", why)
        self.database.tidy()

    def clock(self) -> float:
        """How long the study has been worked on, this session included."""
        return self.clock_base + time.monotonic() - self.clock_start

    def step(self, finished: Sequence[Trial], added: Sequence[Addition], running: bool) -> None:
        """Finish some trials and add others: one transaction, one fsync.

        Args:
            finished: Their state is final. One that is final already stays as it is.
            added: In order of number.
            running: Whether the added ones are being worked on from now on.
        """
        if not finished and not added:
            return
        now, clock, worker = time.time(), self.clock(), me()
        rows = [add_row(addition, now, clock, running, worker) for addition in added]
        with self.database.transaction() as connection:
            # Some may have been added and finished since the last step, so they are added first.
            connection.executemany(ADD, rows)
            connection.executemany(FINISH, [finish_row(t, now, clock) for t in finished])

    # --------------------------------------------------------------------------- the workers'

    def claim(self, worker: str, lease: float, *, number: int | None = None) -> Claim | None:
        """Take the first trial that waits, or a certain one, for ``lease`` seconds.

        None when none may be tried now. A trial over which ``ALONE`` workers were lost comes after
        all others, and by itself; whoever asks for a certain one looks after that.
        """
        with self.database.transaction() as connection:
            row = _first(connection) if number is None else _certain(connection, number)
            if row is None:
                return None
            number, token = row[0], row[1] + 1
            connection.execute(
                "UPDATE trials SET state = 'running', token = ?, worker = ?, expires = ?, boot = ? "
                "WHERE number = ?",
                (token, worker, time.monotonic() + lease, self._boot, number),
            )
            _log(connection, number, worker, "claimed")
        return Claim(number, token, worker)

    def renew(self, claim: Claim, lease: float) -> bool:
        """Keep a claim for another ``lease`` seconds; False when it is no longer held."""
        with self.database.transaction() as connection:
            changed = connection.execute(
                "UPDATE trials SET expires = ?, boot = ? "
                "WHERE number = ? AND token = ? AND state = 'running'",
                (time.monotonic() + lease, self._boot, claim.number, claim.token),
            )
            return changed.rowcount == 1

    def finish(self, claim: Claim, trial: Trial) -> bool:
        """Record a result; False, and nothing changed, when the claim is no longer held."""
        with self.database.transaction() as connection:
            row = finish_row(trial, time.time(), self.clock())
            held = connection.execute(f"{FINISH} AND token = ?", (*row, claim.token))
            if held.rowcount == 1:
                return True
            _log(connection, claim.number, claim.worker, "late result refused")
            return False

    def claimed_by(self, worker: str) -> Claim | None:
        """What a worker holds."""
        query = (
            "SELECT number, token FROM trials WHERE finished IS NULL AND state = 'running' "
            "AND worker = ?"
        )
        with self.database.reading() as connection:
            row = connection.execute(query, (worker,)).fetchone()
        return Claim(row[0], row[1], worker) if row else None

    def expired(self) -> list[Claim]:
        """Claims whose lease has ended."""
        query = (
            "SELECT number, token, worker FROM trials WHERE finished IS NULL "
            "AND state = 'running' AND expires IS NOT NULL AND (expires < ? OR boot <> ?)"
        )
        with self.database.reading() as connection:
            rows = connection.execute(query, (time.monotonic(), self._boot)).fetchall()
        return [Claim(*row) for row in rows]

    def suspects(self) -> dict[int, int]:
        """The open trials that are tried alone from now on, and how often each was lost."""
        query = "SELECT number, losses FROM trials WHERE finished IS NULL AND losses >= ?"
        with self.database.reading() as connection:
            return dict(connection.execute(query, (ALONE,)).fetchall())

    def lose(self, claim: Claim, why: str, retries: float) -> bool:
        """Take a trial from a worker that died or fell silent.

        Returns:
            Whether it waits to be tried again. After ``retries`` more tries it has failed. Nothing
            changes when the claim was no longer held.
        """
        with self.database.transaction() as connection:
            row = connection.execute(
                "SELECT losses FROM trials WHERE number = ? AND token = ? AND state = 'running'",
                (claim.number, claim.token),
            ).fetchone()
            if row is None:
                return False
            _log(connection, claim.number, claim.worker, "lost", why)
            if row[0] < retries:
                _release(connection, claim.number, lost=1)
                return True
            reason = f"Its worker was lost: {why}."
            row = ("failed", "{}", reason, 0.0, time.time(), self.clock(), claim.number)
            connection.execute(FINISH, row)
            return False


_OPEN = "SELECT number, token FROM trials WHERE finished IS NULL AND original IS NULL AND state"


def _certain(connection: sqlite3.Connection, number: int) -> tuple[int, int] | None:
    """A trial of a number, if it waits."""
    row: tuple[int, int] | None = connection.execute(
        f"{_OPEN} = 'waiting' AND number = ?", (number,)
    ).fetchone()
    return row


def _first(connection: sqlite3.Connection) -> tuple[int, int] | None:
    """The first trial that waits and may be tried beside those that run."""
    (running,) = connection.execute(
        "SELECT max(losses) FROM trials WHERE finished IS NULL AND original IS NULL "
        "AND state = 'running'"
    ).fetchone()
    if running is not None and running >= ALONE:
        return None
    most = ALONE if running is not None else 1 << 62
    row: tuple[int, int] | None = connection.execute(
        f"{_OPEN} = 'waiting' AND losses < ? ORDER BY losses >= ?, number LIMIT 1", (most, ALONE)
    ).fetchone()
    return row


_RUNNING = (
    "SELECT number, worker FROM trials WHERE finished IS NULL AND state = 'running' ORDER BY number"
)


# Of every trial up to the first that is open, all that a repetition must give again.
_SEALED = (
    "SELECT number, decisions, arch, parents, rung, steps, train_seconds, continues, origin, note, "
    "details, original, state, results, reason FROM trials WHERE number < ? ORDER BY number"
)


def _seal(connection: sqlite3.Connection, count: int | None = None) -> str:
    """How many trials have ended without a gap, and a hash of them."""
    if count is None:
        (count,) = connection.execute(
            "SELECT coalesce((SELECT min(number) FROM trials WHERE finished IS NULL), "
            "(SELECT count(*) FROM trials))"
        ).fetchone()
    digest = hashlib.sha256()
    for row in connection.execute(_SEALED, (count,)):
        digest.update(repr(row).encode())
    return f"{count} trials, sha256 {digest.hexdigest()}"


def boot_id() -> str:
    """Changes each time the machine starts."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return "unknown"


def me() -> str:
    """This process, as the event log names it."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def _release(connection: sqlite3.Connection, number: int, lost: int = 0) -> None:
    connection.execute(
        "UPDATE trials SET state = 'waiting', token = token + 1, worker = NULL, expires = NULL, "
        "losses = losses + ? WHERE number = ?",
        (lost, number),
    )


def _log(
    connection: sqlite3.Connection,
    number: int | None,
    worker: str | None,
    what: str,
    detail: str = "",
) -> None:
    connection.execute(
        "INSERT INTO events (time, number, worker, what, detail) VALUES (?, ?, ?, ?, ?)",
        (time.time(), number, worker, what, detail),
    )
