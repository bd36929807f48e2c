"""States on disk are those of the teacher: bounded, checked, and only where they help."""

from pathlib import Path
from typing import Any

import pytest
import torch

from formwright.distil import cache
from formwright.distil.cache import States
from formwright.distil.teacher import Teacher


class _Clock:
    """Time that passes only while the teacher runs, or only while files are read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    found = _Clock()
    monkeypatch.setattr(cache.time, "perf_counter", found)
    return found


@pytest.fixture
def slow_teacher(clock: _Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A teacher whose every pass takes a second, so that reading is cheaper."""
    plain = Teacher.hidden

    def hidden(self: Teacher, *given: Any) -> Any:
        clock.now += 1
        return plain(self, *given)

    monkeypatch.setattr(Teacher, "hidden", hidden)


@pytest.mark.usefixtures("slow_teacher")
def test_what_is_read_is_what_the_teacher_holds(teacher: Teacher, tmp_path: Path) -> None:
    batches = list(teacher.calibration(3, batch_tokens=96))
    kept, plain = States(teacher, batches, tmp_path), States(teacher, batches)
    assert kept.stored
    assert not plain.stored
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    for layer in range(teacher.depth):
        for ours, theirs in zip(kept.pairs(layer), plain.pairs(layer), strict=True):
            for a, b in zip(ours, theirs, strict=True):
                assert (a is None and b is None) or torch.equal(a, b)


def test_where_reading_is_slower_the_teacher_is_run(
    encoder: Teacher, clock: _Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = States._read

    def read(self: States, *given: int) -> Any:
        clock.now += 1
        return plain(self, *given)

    monkeypatch.setattr(States, "_read", read)
    states = States(encoder, list(encoder.calibration(2, batch_tokens=96)), tmp_path)
    assert not states.stored
    assert "longer than running" in states.why
    assert len(list(states.pairs(0))) == 2


@pytest.mark.usefixtures("slow_teacher")
def test_a_bound_is_kept(encoder: Teacher, tmp_path: Path) -> None:
    batches = list(encoder.calibration(2, batch_tokens=96))
    states = States(encoder, batches, tmp_path / "states", most=1000)
    assert not states.stored
    assert "more than 1,000" in states.why
    assert not (tmp_path / "states").exists()


@pytest.mark.usefixtures("slow_teacher")
def test_a_damaged_file_and_another_teacher_are_noticed(encoder: Teacher, tmp_path: Path) -> None:
    batches = list(encoder.calibration(2, batch_tokens=96))
    States(encoder, batches, tmp_path)
    file = tmp_path / "states-0001.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-4] + b"oops")
    assert States(encoder, batches, tmp_path).stored
    assert file.read_bytes() == whole
    other = list(encoder.calibration(2, batch_tokens=96, first=7))
    (before, *_) = next(iter(States(encoder, other, tmp_path).pairs(0)))
    assert torch.equal(before, encoder.hidden(other[0], [0])[0][0])
