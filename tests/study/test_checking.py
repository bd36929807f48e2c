"""What is no study is refused when it is read, with what is wrong."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.study.toy import archive, free, study

from formwright.errors import FormwrightError, InputError, SpecError, StorageError
from formwright.execute import search
from formwright.files import check_sealed, disk_trouble, write_sealed
from formwright.space import Span, TreeSpace
from formwright.study import Study
from formwright.study.checking import DEEPEST, check_meta, check_trial, too_deep
from formwright.study.outcome import Outcome, read_outcome, write_outcome
from formwright.trial import Pending, Trial, key_of
from formwright.versions import RESULTS, changes, cpu, versions


@pytest.mark.parametrize(
    "wrong",
    [
        {"decisions": []},
        {"values": {"loss": float("nan")}},
        {"values": {"loss": "1"}},
        {"parents": (5,)},
        {"parents": (-1,)},
        {"rung": "x"},
        {"rung": -1},
        {"steps": 1.5},
        {"continues": 4},
        {"original": True},
        {"seconds": float("inf")},
        {"note": b"x"},
    ],
)
def test_a_trial_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    check_trial(Trial(4, {"a": 1}, parents=(0, 3), continues=3))
    with pytest.raises(ValueError, match="trial 4 is damaged"):
        check_trial(Trial(4, **{"decisions": {"a": 1}, **wrong}))


@pytest.mark.parametrize(
    "wrong",
    [
        {"objectives": []},
        {"objectives": [["loss", "min", "x"]]},
        {"rules": {"window": 1.5}},
        {"rules": {"window": 1 << 40}},
        {"rules": {"limits": {"loss": "x"}}},
        {"seed": "1"},
        {"strategy": {"name": "random", "options": 3}},
        {"versions": []},
        {"task": 7},
    ],
)
def test_meta_data_that_cannot_be_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    meta = study(tmp_path / "s").meta
    check_meta(meta)
    with pytest.raises(ValueError, match=r"its |the options"):
        check_meta({**meta, **wrong})


def test_depth_is_counted_without_walking_down() -> None:
    deep: Any = 0
    for _ in range(DEEPEST - 1):
        deep = [deep]
    assert not too_deep(deep)
    for _ in range(100_000):
        deep = [deep]
    assert too_deep(deep)


def test_a_changed_digit_in_the_record_is_found_by_its_seal(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    search(made, free, trials=8)
    other = sqlite3.connect(made.folder / "study.db")
    other.execute("DROP TRIGGER finished_is_final")
    other.execute("UPDATE trials SET results = replace(results, '.', '.1') WHERE number = 3")
    other.commit()
    other.close()
    assert len(Study.open(made.folder).trials) == 8  # it can still be looked at
    with pytest.raises(StorageError, match="first 8 trials are no longer what they were"):
        search(made, free, trials=9)


def test_a_seal_covers_what_a_killed_session_left(tmp_path: Path) -> None:
    made, whole = study(tmp_path / "s"), study(tmp_path / "whole")
    search(whole, free, trials=12)
    for trials in (4, 8, 12):
        search(made, free, trials=trials)
    assert archive(made) == archive(whole)
    sealed = [e["detail"].split(",")[0] for e in made.events if e["what"] == "sealed"]
    assert sealed == ["0 trials", "4 trials", "4 trials", "8 trials", "8 trials", "12 trials"]


def test_a_sealed_file_is_believed_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"by hand")
    check_sealed(path)  # nobody sealed it
    for content in (b"one", b"two", b"three"):
        write_sealed(path, content[:1], content[1:])
        check_sealed(path)
    path.write_bytes(b"two")  # what a crash before the last write leaves
    check_sealed(path)
    path.write_bytes(b"one")
    with pytest.raises(StorageError, match=r"a\.json is damaged: it does not match its SHA-256"):
        check_sealed(path)


def test_a_sealed_file_is_believed_after_two_crashes_before_its_writing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_sealed(path, b"one")
    for _ in range(2):
        write_sealed(path, b"two")
        path.write_bytes(b"one")  # as if it had not come to that
        check_sealed(path)


@pytest.mark.parametrize("text", ['{"baseline": 1}', "[]", "[" * 3000, '{"baseline": null}'])
def test_an_outcome_that_cannot_be_is_refused(tmp_path: Path, text: str) -> None:
    write_outcome(tmp_path, Outcome(headline="It is good.", chosen=1, facts={"speedup": 2.0}))
    assert read_outcome(tmp_path).chosen == 1
    (tmp_path / ".sha256.json").unlink()
    (tmp_path / "outcome.json").write_text(text)
    if text == '{"baseline": null}':  # the rest has defaults
        assert read_outcome(tmp_path) == Outcome()
        return
    with pytest.raises(StorageError, match="delete it to go on without"):
        read_outcome(tmp_path)


def test_other_versions_and_processors_are_said_and_other_results_refused(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    assert made.meta["results"] == RESULTS
    assert made.meta["processor"] == cpu()
    assert changes(made.meta) == []
    assert changes({}) == []
    (said,) = changes({"versions": {**versions(), "torch": "1.0"}})
    assert "torch 1.0 then" in said
    (said,) = changes({"processor": {**cpu(), "name": "Abacus"}})
    assert "Abacus then" in said
    assert "rounds differently" in said
    made.meta["results"] = RESULTS + 1
    with pytest.raises(InputError, match="would mix the two"):
        search(made, free, trials=1)


def test_messages_can_be_printed_anywhere() -> None:
    error = FormwrightError(f"{'a' * 9000} \x1b[2J end")
    assert len(str(error)) < 1600
    assert str(error).endswith("\ufffd[2J end")


def test_trouble_with_a_disk_is_told_from_other_trouble(tmp_path: Path) -> None:
    assert disk_trouble(ValueError("no"), tmp_path) == ""
    assert "no room" in disk_trouble(RuntimeError("write: No space left on device"), tmp_path)
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorname = "SQLITE_FULL"
    wrapped = StorageError("it cannot be written")
    wrapped.__cause__ = full
    assert "no room" in disk_trouble(wrapped, tmp_path)
    inside = PermissionError(13, "Permission denied", str(tmp_path / "x"))
    assert "may not be written" in disk_trouble(inside, tmp_path)
    assert disk_trouble(inside, tmp_path / "elsewhere") == ""


def test_what_is_pending_is_looked_up_by_what_it_tries() -> None:
    trials = [Trial(n, {"b": n % 2, "a": [1]}) for n in range(4)]
    pending = Pending(trials)
    assert list(pending) == trials
    assert pending[1:3] == trials[1:3]
    for _ in range(3):
        assert pending.tries(key_of({"a": (1,), "b": 1}))
        pending.drop()
    pending.drop()
    assert not pending.tries(key_of({"a": (1,), "b": 1}))
    assert len(pending) == 0


def test_numbers_that_bound_each_other_in_a_circle_are_refused() -> None:
    one, other = Span("a", 1, 9, above=1.0, of="b"), Span("b", 1, 9, above=1.0, of="a")
    with pytest.raises(SpecError, match="bounded by itself"):
        TreeSpace((one, other))
    with pytest.raises(SpecError, match="more than 100,000 numbers"):
        Span("a", 1, 10**9)
