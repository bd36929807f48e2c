"""The cache of prepared data: found again, never trusted, never half written."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from formwright.tasks.cache import Ragged, Stored, cached, read_entry, small_dtype, write_entry


def example() -> Stored:
    stored = Stored(meta={"words": ["a", "é"]})
    stored.add("rows", [[1, 2, 3], [], [4]], small_dtype(300))
    stored.add_texts("texts", ["héllo", "", "x"])
    stored.arrays["numbers"] = np.array([[0.5, 1.5]], np.float32)
    return stored


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORMWRIGHT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_was_written_is_read_back_and_mapped(tmp_path: Path) -> None:
    write_entry(tmp_path / "x.data", example())
    found = read_entry(tmp_path / "x.data")
    assert [found.ragged("rows")[i].tolist() for i in range(3)] == [[1, 2, 3], [], [4]]
    assert found.ragged("rows").values.dtype == np.uint16
    assert [found.ragged("texts").text(i) for i in range(3)] == ["héllo", "", "x"]
    assert found.arrays["numbers"].tolist() == [[0.5, 1.5]]
    assert found.meta == {"words": ["a", "é"]}
    assert not found.arrays["rows"].flags.writeable  # it is the file


def test_rows_are_padded_to_the_longest() -> None:
    rows = Ragged(np.array([1, 2, 3, 4], np.uint8), np.array([0, 3, 3, 4]))
    values, real = rows.padded(np.array([2, 0, 1]), fill=9)
    assert values.tolist() == [[4, 9, 9], [1, 2, 3], [9, 9, 9]]
    assert real.tolist() == [[True, False, False], [True] * 3, [False] * 3]


def test_the_same_settings_build_once_and_others_again(folder: Path) -> None:
    calls = []

    def build() -> Stored:
        calls.append(1)
        return example()

    for settings in ({"a": 1}, {"a": 1}, {"a": 2}):
        cached("kind", settings, build)
    assert len(calls) == 2
    assert len(list(folder.glob("*.data"))) == 2
    assert not list(folder.glob(".*"))


def test_every_changed_byte_and_every_cut_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.data"
    write_entry(path, example())
    whole = path.read_bytes()
    harmless = 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            found = read_entry(path)
        except (ValueError, KeyError, TypeError):
            continue
        harmless += 1  # filling between arrays, which nobody reads
        assert found.ragged("rows").values.tolist() == [1, 2, 3, 4]
        assert found.meta == example().meta
    assert harmless < 64 * 7
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises((ValueError, KeyError, TypeError)):
            read_entry(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="size"):
        read_entry(path)


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_broken_entry_is_made_again(
    folder: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    cached("kind", {}, example)
    (path,) = folder.glob("*.data")
    whole = path.read_bytes()
    broken = {
        "cut": whole[:-70],
        "flip": whole.replace(b"h\xc3\xa9llo", b"h\xc3\xa9llp"),
        "empty": b"",
    }[damage]
    assert broken != whole
    path.write_bytes(broken)
    with caplog.at_level(logging.WARNING):
        found = cached("kind", {}, example)
    assert "damaged" in caplog.text
    assert found.ragged("texts").text(0) == "héllo"
    assert path.read_bytes() == whole


def test_without_a_place_to_write_the_data_stays_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("FORMWRIGHT_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        found = cached("kind", {}, example)
    assert found.ragged("rows")[0].tolist() == [1, 2, 3]
    assert "stays in memory" in caplog.text


def test_a_failed_write_leaves_the_old_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.data"
    write_entry(path, example())
    whole = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_entry(path, Stored(meta={"new": True}))
    assert path.read_bytes() == whole
    assert [p.name for p in tmp_path.iterdir()] == ["x.data"]


@pytest.mark.slow
def test_many_writers_at_once_leave_one_good_entry(folder: Path) -> None:
    program = (
        "import numpy as np\n"
        "from formwright.tasks.cache import Stored, cached\n"
        "for turn in range(20):\n"
        "    make = lambda: Stored({'x': np.arange(50_000, dtype=np.int64)})\n"
        "    found = cached('kind', {'turn': turn}, make)\n"
        "    assert int(found.arrays['x'].sum()) == 49_999 * 25_000\n"
    )
    started = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [process.wait(timeout=200) for process in started] == [0, 0, 0]
    assert len(list(folder.iterdir())) == 20
    for path in folder.iterdir():
        read_entry(path)
