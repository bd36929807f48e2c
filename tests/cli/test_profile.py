"""``formwright profile`` as a user meets it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess
from tests.cost.planted import members, small_space

from formwright.cost.profile import load_profile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "space.json").write_text(json.dumps(small_space().to_data()))
    return tmp_path


def command(folder: Path, *words: str) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "formwright.cli.main", "profile", *words],
        "cwd": folder,
        "env": {**os.environ, "OMP_NUM_THREADS": "1"},
        "text": True,
    }


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(**command(folder, *words), capture_output=True, check=False)


PROFILE = ("space.json", "--target", "eager,length=16", "--out", "here.json", "--samples", "10")
QUICK = (*PROFILE, "--check", "4", "--seconds", "0.01")


def test_a_space_is_profiled_and_the_file_serves_elsewhere(folder: Path) -> None:
    done = run(folder, *QUICK, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["samples"] == 10
    assert set(found["check"]) == {"predictor", "table", "flops", "params"}
    assert found["check"]["predictor"]["number"] == 4
    profile = load_profile(folder / "here.json")
    ms, low, high = profile.latency(members(1, seed=1)[0])
    assert 0 < low < ms < high
    before = (folder / "here.json.journal").read_text()
    again = run(folder, *QUICK)
    assert again.returncode == 0, again.stderr
    assert (folder / "here.json.journal").read_text() == before  # nothing measured again
    assert "continuing" in again.stdout
    assert "\x1b" not in again.stdout


def test_a_killed_run_continues(folder: Path) -> None:
    words = (*QUICK, "--no-table")
    journal = folder / "here.json.journal"
    with subprocess.Popen(**command(folder, *words), stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while not journal.exists() or journal.read_text().count("\n") < 5:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    kept = [line for line in journal.read_text().splitlines() if line.endswith("}")]
    done = run(folder, *words, "--json")
    assert done.returncode == 0, done.stderr
    after = journal.read_text().splitlines()
    assert after[: len(kept)] == kept
    ids = [json.loads(line)["id"] for line in after if '"id"' in line]
    assert len(ids) == len(set(ids)) == 14


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere", "--out", "x.json"), "No space is called"),
        (("missing.json", "--out", "x.json"), "cannot be read"),
        (("broken.json", "--out", "x.json"), "not a JSON document"),
        (("other.json", "--out", "x.json"), "formwright_space"),
        ((*QUICK, "--target", "fastest"), "No runtime is called"),
        ((*QUICK, "--seconds", "0"), "--seconds"),
        ((*QUICK, "--samples", "1"), "too few"),
        ((*QUICK, "--passes", "0"), "--passes"),
        ((*QUICK, "--out", "no/such/folder.json"), "does not exist"),
    ],
)
def test_a_mistake_ends_with_one_sentence(
    folder: Path, words: tuple[str, ...], said: str, in_process: InProcess
) -> None:
    (folder / "broken.json").write_text("{")
    (folder / "other.json").write_text("{}")
    done = in_process("profile", *words, folder=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
