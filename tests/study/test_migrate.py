"""Records of the first format open, mean the same, and go on to the same search."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import torch

from formwright.errors import StorageError
from formwright.locks import Lock
from formwright.recipes.life import conduct
from formwright.recipes.reopen import recipe_of
from formwright.study import Study, migrate
from formwright.study.schema import FORMAT_VERSION


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The folder of a search of 17 trials, as format 1 kept it."""
    connection = sqlite3.connect(tmp_path / "study.db")
    connection.executescript(Path(__file__).with_name("format1.sql").read_text(encoding="utf-8"))
    connection.close()
    return tmp_path


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def test_a_record_of_format_1_is_brought_up_to_date_and_a_copy_is_kept(old: Path) -> None:
    study = Study.open(old)
    assert version(old / "study.db") == FORMAT_VERSION == study.meta["format"]
    assert version(old / "study.format-1.db") == 1
    origins = [trial.origin for trial in study.trials]
    assert origins.count("corner") == 5
    assert origins.count("predicted") == 4
    assert origins.count("random") == 1
    assert [t.number for t in study.trials if t.control] == [4, 9, 14]
    promoted = [trial for trial in study.trials if trial.origin == "promoted"]
    assert {(t.rung, t.steps) for t in promoted} == {(1, 6)}
    assert {t.steps for t in study.trials if t.rung == 0} == {2}
    assert [trial.number for trial in study.front] == [11, 3]
    assert not any(trial.note for trial in study.trials)
    assert study.space.name == "open"


def test_what_is_finished_is_final_again_after_the_upgrade(old: Path) -> None:
    Study.open(old).close()
    connection = sqlite3.connect(old / "study.db")
    with pytest.raises(sqlite3.IntegrityError, match="a finished trial never changes"):
        connection.execute("UPDATE trials SET results = '{}' WHERE number = 3")
    with pytest.raises(sqlite3.IntegrityError, match="what a trial tries never changes"):
        connection.execute("UPDATE trials SET origin = 'x' WHERE number = 3")
    connection.close()


def test_an_upgrade_cut_short_changes_nothing_and_is_repeated(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(meta: object) -> dict[str, object]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(migrate, "_meta", broken)
        with pytest.raises(KeyboardInterrupt):
            Study.open(old)
    assert version(old / "study.db") == 1
    connection = sqlite3.connect(old / "study.db")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(trials)")]
    connection.close()
    assert "origin" not in columns
    assert len(Study.open(old).trials) == 17


def test_a_record_that_somebody_works_on_is_not_upgraded(old: Path) -> None:
    lock = Lock(old)
    with pytest.raises(StorageError, match="is in use by"):
        Study.open(old)
    lock.close()
    assert version(old / "study.db") == 1


def test_a_search_of_format_1_goes_on_and_ends_in_finals(old: Path) -> None:
    """What it has is kept; a search of today has rivals and finals besides."""
    torch.set_num_threads(1)
    study = Study.open(old)
    found: Any = recipe_of(study)
    assert (found.trials, found.seconds, found.workers) == (17, None, 1), "as it was begun"
    assert conduct(found.within(None, 24), study) == "trials"
    own = [trial for trial in study.trials if not trial.rival and not trial.final]
    assert len(own) == 24
    assert [trial.number for trial in own[:17]] == list(range(17))
    assert any(trial.final and trial.done for trial in study.trials)


@pytest.mark.parametrize(
    ("note", "said"),
    [
        ("sample", ("random", "", "{}")),
        ("random (as trial 3)", ("control", "", "{}")),
        ("random, as dear as do", ("control", "as dear as do", "{}")),
        ("rung 2", ("promoted", "", "{}")),
        ("do and sdo", ("found", "do and sdo", '{"methods":["do","sdo"]}')),
        ("found by the supernet", ("found", "found by the supernet", "{}")),
        ("sandwich (s)x2(sf)x2(f)x2", ("seed", "sandwich (s)x2(sf)x2(f)x2", "{}")),
        ("", ("", "", "{}")),
    ],
)
def test_notes_of_format_1_become_data(note: str, said: tuple[str, str, str]) -> None:
    assert tuple(migrate._said(note, part) for part in ("origin", "note", "details")) == said
