"""The record: claims are exclusive, leases end, finished trials are final, readers are free."""

import multiprocessing
import os
import signal
import sqlite3
import threading
import time
from math import inf
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from tests.study.toy import study

from formwright.errors import InputError, StorageError
from formwright.study import store as store_module
from formwright.study.database import create
from formwright.study.folder import record_path
from formwright.study.rows import Addition, dumped
from formwright.study.store import ALONE, Claim, Store
from formwright.trial import Trial


@pytest.fixture
def store(tmp_path: Path) -> Store:
    study(tmp_path).close()
    return Store(record_path(tmp_path))


def add(store: Store, count: int, start: int = 0, running: bool = False) -> None:
    trials = [Trial(n, {"a": n, "b": (1, 2)}, arch=f"x{n}") for n in range(start, start + count)]
    store.step([], [Addition(trial, dumped(trial.decisions)) for trial in trials], running)


def done(number: int, **changes: object) -> Trial:
    fields = {"state": "done", "values": {"loss": 0.1}, "seconds": 1.5} | changes
    return Trial(number, {"a": number}, **fields)  # type: ignore[arg-type]


def test_a_trial_comes_back_as_it_was_stored(store: Store) -> None:
    trial = Trial(
        0,
        {"b": 1, "a": (0, 2), "c": 0.1},
        "id",
        parents=(),
        rung=2,
        steps=7,
        origin="mutation",
        details={"a": [1, {"b": 2.5}]},
        note='"quoted" Ünïcode',
    )
    store.step([], [Addition(trial, dumped(trial.decisions), "words")], running=False)
    assert store.trials() == [trial]
    assert list(store.trials()[0].decisions) == ["b", "a", "c"]
    claim = store.claim("me", 10)
    assert claim is not None
    values = {"loss": 0.1 + 0.2, "other": 1e-300}
    assert store.finish(claim, done(0, values=values))
    (found,) = store.trials()
    assert found.values == values
    assert (found.state, found.seconds, found.decisions) == ("done", 1.5, trial.decisions)


def test_each_trial_is_claimed_by_one_worker(store: Store) -> None:
    add(store, 5)
    claims = [store.claim(f"w{i}", 10) for i in range(6)]
    assert [claim.number for claim in claims if claim] == [0, 1, 2, 3, 4]
    assert claims[5] is None


def test_many_at_once_claim_and_finish_every_trial_once(store: Store) -> None:
    add(store, 100)
    taken: list[int] = []

    def work(name: str) -> None:
        mine = Store(store.path)
        while (claim := mine.claim(name, 10)) is not None:
            assert mine.finish(claim, done(claim.number, values={"loss": claim.number}))
            taken.append(claim.number)
        mine.close()

    workers = [threading.Thread(target=work, args=(f"w{i}",)) for i in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(taken) == list(range(100))
    assert [t.values for t in store.trials()] == [{"loss": n} for n in range(100)]


def test_a_claim_does_not_read_through_what_has_ended(store: Store) -> None:
    steps = []
    for count in (100, 2000):
        start = len(store.trials())
        ended = [Addition(done(n), "{}") for n in range(start, count)]
        store.step([], ended, running=False)
        add(store, 1, start=count)
        ticks = [0]

        def tick(ticks: list[int] = ticks) -> int:
            ticks[0] += 1
            return 0

        store.database._connection.set_progress_handler(tick, 10)
        claim = store.claim("w", 10)
        assert claim is not None
        assert claim.number == count
        store.finish(claim, done(count))
        steps.append(ticks[0])
        store.database._connection.set_progress_handler(None, 10)
    assert steps[1] <= 2 * steps[0]


def test_a_result_is_refused_once_the_trial_has_changed_hands(store: Store) -> None:
    add(store, 1)
    slow = store.claim("slow", 10)
    assert slow is not None
    assert store.lose(slow, "it fell silent", retries=1)
    quick = store.claim("quick", 10)
    assert quick is not None
    assert not store.renew(slow, 10)
    assert not store.finish(slow, done(0, values={"loss": 99.0}))
    assert store.finish(quick, done(0))
    assert not store.finish(slow, done(0, values={"loss": 99.0}))
    assert store.trials()[0].values == {"loss": 0.1}
    assert [e["what"] for e in store.events()].count("late result refused") == 2


def test_a_trial_is_lost_as_often_as_it_may_be_and_then_fails_with_a_reason(store: Store) -> None:
    add(store, 1)
    for retries, again in ((inf, True), (inf, True), (0, False)):
        claim = store.claim("w", 10)
        assert claim is not None
        assert store.lose(claim, "signal 9", retries=retries) is again
    (trial,) = store.trials()
    assert (trial.state, trial.reason) == ("failed", "Its worker was lost: signal 9.")


def test_a_trial_that_was_lost_three_times_is_tried_last_and_by_itself(store: Store) -> None:
    add(store, 3)
    for _ in range(ALONE):
        claim = store.claim("w", 10)
        assert claim is not None
        assert claim.number == 0
        store.lose(claim, "signal 9", retries=inf)
    assert store.suspects() == {0: ALONE}
    first, second = store.claim("a", 10), store.claim("b", 10)
    assert first is not None
    assert second is not None
    assert (first.number, second.number) == (1, 2)
    assert store.claim("c", 10) is None  # others are at work
    store.finish(first, done(1))
    assert store.claim("c", 10) is None
    store.finish(second, done(2))
    alone = store.claim("c", 10)
    assert alone is not None
    assert alone.number == 0
    add(store, 1, start=3)
    assert store.claim("a", 10) is None  # nobody else is, while it is tried
    store.finish(alone, done(0))
    assert store.suspects() == {}
    assert store.claim("a", 10) is not None


def test_a_session_that_died_is_held_against_the_trial_that_its_process_tried(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.begin()
    add(store, 3, running=True)
    for _ in range(ALONE):  # died, without an end
        assert store.begin() == [0, 1, 2]
        store.take([0, 1, 2])
    assert store.suspects() == {0: ALONE}
    store.end("interrupted")
    store.take([0, 1, 2])
    store.begin()
    assert store.suspects() == {0: ALONE}  # it ended as it should
    monkeypatch.setattr(store, "_boot", "another")
    store.take([0, 1, 2])
    store.begin()
    assert store.suspects() == {0: ALONE}  # the machine was switched off


def test_a_lease_ends_unless_renewed_and_with_the_boot(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, 2)
    short, long = store.claim("short", 0.05), store.claim("long", 60)
    assert short is not None
    assert long is not None
    assert store.expired() == []
    time.sleep(0.06)
    assert store.expired() == [short]
    assert store.renew(short, 60)
    assert store.expired() == []
    # The clock on the wall may jump as it likes.
    monkeypatch.setattr(store_module.time, "time", lambda: 4e9)
    assert store.expired() == []
    monkeypatch.setattr(store_module, "boot_id", lambda: "another boot")
    assert Store(store.path).expired() == [short, long]


def test_the_file_itself_refuses_to_change_what_is_final(store: Store) -> None:
    add(store, 3)
    claim = store.claim("w", 10)
    assert claim is not None
    store.finish(claim, done(0))
    other = sqlite3.connect(store.path)
    for statement, words in {
        "UPDATE trials SET results = '{}' WHERE number = 0": "finished trial never changes",
        "UPDATE trials SET state = 'waiting' WHERE number = 0": "finished trial never changes",
        "UPDATE trials SET decisions = '{}' WHERE number = 1": "what a trial tries never changes",
        "UPDATE trials SET arch = 'other' WHERE number = 1": "what a trial tries never changes",
        "DELETE FROM trials WHERE number = 1": "never deleted",
        "DELETE FROM events": "never deleted",
        "UPDATE events SET what = ''": "never changes",
        "UPDATE meta SET value = '1' WHERE key = 'seed'": "never changes",
        "DELETE FROM meta": "never changes",
        "REPLACE INTO trials SELECT * FROM trials WHERE number = 0": "one after the other",
        "UPDATE trials SET state = 'lost' WHERE number = 1": "CHECK",
    }.items():
        with pytest.raises(sqlite3.IntegrityError, match=words):
            other.execute(statement)
        other.rollback()
    with pytest.raises(StorageError, match="one after the other"):
        add(store, 1, start=7)
    assert len(store.trials()) == 3


def test_a_step_happens_whole_or_not_at_all(store: Store) -> None:
    add(store, 1)
    bad = [Addition(Trial(n, {"a": 1}), '{"a":1}') for n in (1, 5)]
    with pytest.raises(StorageError):
        store.step([done(0)], bad, running=False)
    assert [trial.state for trial in store.trials()] == ["waiting"]


def test_a_new_session_takes_back_what_the_last_one_left(store: Store) -> None:
    add(store, 2)
    old = store.claim("orphan", 3600)
    assert old is not None
    assert store.begin() == [0]
    new = store.claim("worker", 10)
    assert new is not None
    assert new.number == 0
    assert not store.finish(old, done(0))


def test_time_worked_adds_up_over_sessions(store: Store) -> None:
    add(store, 1)
    store.begin()
    store.clock_start -= 100  # this session has lasted that long
    store.step([done(0)], [], running=False)
    assert store.seconds() == pytest.approx(100, abs=1)
    again = Store(store.path)
    again.begin()
    assert again.clock() == pytest.approx(100, abs=1)


def test_creating_twice_is_refused_and_changes_nothing(store: Store) -> None:
    before = store.meta()
    with pytest.raises(InputError, match="already holds a study"):
        create(store.path, {"seed": "9"})
    assert store.meta() == before


def _late(path: Path, link: Connection) -> None:
    """Claim, say so, and record the result when told to, however much later."""
    store = Store(path)
    claim = store.claim("paused", 0.3)
    assert claim is not None
    link.send(claim.number)
    link.recv()
    link.send(store.finish(claim, done(claim.number, values={"loss": 99.0})))


def test_a_worker_paused_for_longer_than_its_lease_comes_too_late(store: Store) -> None:
    add(store, 1)
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_late, args=(store.path, there))
    process.start()
    try:
        assert here.recv() == 0
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.4)
        (expired,) = store.expired()
        assert isinstance(expired, Claim)
        store.lose(expired, "it fell silent", retries=1)
        second = store.claim("second", 10)
        assert second is not None
        store.finish(second, done(0))
        os.kill(process.pid, signal.SIGCONT)
        here.send("go")
        assert here.recv() is False
    finally:
        process.kill()
        process.join()
    assert store.trials()[0].values == {"loss": 0.1}


def test_a_reader_neither_waits_for_writers_nor_stops_them(store: Store) -> None:
    add(store, 1)
    reader = Store(store.path, readonly=True)
    with store.database.transaction() as writing:  # a writer in the middle of a step
        writing.execute("INSERT INTO events (time, what) VALUES (0, 'x')")
        began = time.monotonic()
        assert len(reader.trials()) == 1
        assert time.monotonic() - began < 1
    with reader.database.reading() as reading:  # a reader in the middle of reading
        reading.execute("SELECT * FROM trials").fetchone()
        began = time.monotonic()
        add(store, 1, start=1)
        assert time.monotonic() - began < 1
        assert len(reading.execute("SELECT * FROM trials").fetchall()) == 1  # still its moment
    assert len(reader.trials()) == 2
    with pytest.raises(StorageError, match="readonly"):
        add(reader, 1, start=2)


def test_ctrl_c_right_after_a_transaction_began_leaves_none_open(store: Store) -> None:
    class Interrupted:
        """The connection, as if Ctrl-C came while it waited for its turn to write."""

        def __init__(self, connection: sqlite3.Connection) -> None:
            self.connection = connection

        @property
        def in_transaction(self) -> bool:
            return self.connection.in_transaction

        def execute(self, words: str) -> None:
            self.connection.execute(words)
            if words.startswith("BEGIN"):
                raise KeyboardInterrupt

    real = store.database._connection
    for use in (store.database.transaction, store.database.reading):
        store.database._connection = Interrupted(real)  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt), use():
            raise AssertionError("it never gets here")
        store.database._connection = real
        assert not real.in_transaction
    real.execute("BEGIN IMMEDIATE")  # however one was left behind
    store.end("interrupted")
