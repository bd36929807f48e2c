"""A file is the old one or the new one, never something between."""

import os
from pathlib import Path

import pytest

from formwright.files import write_atomically


def test_parts_are_written_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"ab", memoryview(b"cd"), b"")
    assert path.read_bytes() == b"abcd"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_file_is_complete_before_it_takes_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    seen: list[tuple[bytes, bytes]] = []
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        seen.append((source.read_bytes(), target.read_bytes()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    write_atomically(path, b"new")
    assert seen == [(b"new", b"old")]
    assert path.read_bytes() == b"new"
