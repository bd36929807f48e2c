"""The short form of the campaign of faults, benchmarks/faults.py, and of the fuzzer."""

import signal
import warnings
from pathlib import Path

import pytest
from benchmarks import faults, fuzz

SHORT = {
    "driver_killed": 3,
    "two_drivers": 1,
    "no_space_in_trial": 4,
    "no_space_for_record": 2,
    "damaged_record": 6,
    "damaged_phase": 6,
    "damaged_checkpoint": 6,
    "bad_trial": 4,
    "clock_jump": 1,
    "other_version": 2,
}


@pytest.mark.parametrize("kind", SHORT)
def test_a_search_survives(tmp_path: Path, kind: str) -> None:
    found = faults.campaign(tmp_path, {kind: SHORT[kind]}, say=lambda text: None)
    assert found[kind]["survived"] >= SHORT[kind]


@pytest.mark.parametrize(
    ("kind", "cases"),
    [("notation", 300), ("json", 300), ("space", 100), ("target", 100), ("data", 300)],
)
def test_files_of_strangers_are_read_or_refused(kind: str, cases: int) -> None:
    assert set(fuzzed(kind, cases)) <= {"read", "refused"}


def test_run_folders_of_strangers_are_read_or_refused() -> None:
    assert set(fuzzed("folder", 160)) <= {"read", "refused"}


def fuzzed(kind: str, cases: int) -> dict[str, int]:
    before = signal.getsignal(signal.SIGPROF)
    try:
        with warnings.catch_warnings():
            found = fuzz.fuzz(kind, cases, seed=11)
    finally:
        signal.signal(signal.SIGPROF, before)
    assert not found["faults"], found["faults"]
    counts: dict[str, int] = found["counts"]
    return counts
