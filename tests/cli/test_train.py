"""``formwright train`` and ``eval`` as a user meets them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [f"a good film {i},pos\na bad film {i},neg\n" for i in range(120)]
    (tmp_path / "reviews.csv").write_text("text,label\n" + "".join(rows))
    return tmp_path


def command(folder: Path, *words: str) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "formwright.cli.main", *words],
        "cwd": folder,
        "env": {**os.environ, "FORMWRIGHT_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"},
        "text": True,
    }


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(**command(folder, *words), capture_output=True, check=False)


TRAIN = ("train", "(sf)x1", "--task", "classify:reviews.csv", "--width", "16")


def test_a_table_of_reviews_just_works(folder: Path) -> None:
    done = run(folder, *TRAIN, "--steps", "40", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    keys = {"metric", "value", "loss", "steps", "seconds", "tokens_per_second", "out"}
    assert keys <= set(found)
    assert found["metric"] == "accuracy"
    assert found["steps"] == 40
    assert found["value"] > 0.9
    again = run(folder, *TRAIN, "--steps", "40", "--json")
    assert json.loads(again.stdout) == found  # ended: the result is given again
    scored = run(folder, "eval", found["out"], "--split", "test", "--json")
    assert scored.returncode == 0, scored.stderr
    assert json.loads(scored.stdout)["accuracy"] > 0.9


def test_lines_are_plain_when_nobody_watches(folder: Path) -> None:
    done = run(folder, *TRAIN, "--steps", "40", "--seeds", "2", "--out", "my run")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "over 2 seeds" in done.stdout
    assert (folder / "my run" / "seed-1" / "model" / "model.safetensors").exists()


def test_a_signal_stops_cleanly_and_the_same_command_goes_on(folder: Path) -> None:
    words = (*TRAIN, "--steps", "100000", "--out", "long")
    with subprocess.Popen(
        **command(folder, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "The same command continues" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*TRAIN[:3], "classify:missing.csv"), "missing.csv"),
        ((*TRAIN[:3], "nothing"), "No task is called 'nothing'"),
        ((*TRAIN, "--set", "lrr=1"), "Did you mean 'lr'"),
        ((*TRAIN, "--set", "lr"), "has no value"),
        ((*TRAIN, "--set", "optimiser=sgd"), "one of adafactor, adamw, lamb, muon"),
        ((*TRAIN, "--set", "precision=fp16"), "one of bf16, fp32"),
        ((*TRAIN, "--time", "5x"), "no length of time"),
        ((*TRAIN, "--steps", "0"), "at least 1"),
        (("train", "(sq)x2", *TRAIN[2:]), "'q' is not a layer"),
        (("eval", "no-such-run"), "There is no folder no-such-run"),
    ],
)
def test_a_mistake_gets_one_sentence(
    folder: Path, words: tuple[str, ...], says: str, in_process: InProcess
) -> None:
    done = in_process(*words, folder=folder)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
