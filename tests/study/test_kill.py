"""A search whose process is killed at any moment is the search that nobody disturbed."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.study.toy import archive, free, study

from formwright.execute import search

ROOT = Path(__file__).parents[2]


def start(folder: Path, trials: int, pause: float, workers: int) -> "subprocess.Popen[str]":
    words = [str(folder), str(trials), str(pause), str(workers)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.study.killable", *words],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_a_search_killed_at_random_moments_gives_the_same_archive(tmp_path: Path) -> None:
    whole = study(tmp_path / "whole")
    search(whole, free, trials=150)
    killed = study(tmp_path / "killed")
    rng = random.Random(5)
    for _ in range(5):
        process = start(killed.folder, 150, 0.01, 1)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "open"
        time.sleep(rng.uniform(0.02, 0.5))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    interrupted = len(killed.trials)
    search(killed, free, trials=150)
    assert 5 < interrupted < 150
    assert archive(killed) == archive(whole)
    assert [t.number for t in killed.front] == [t.number for t in whole.front]
    lines = (killed.folder / "evaluated.txt").read_text().split()
    assert len(lines) - len(set(lines)) <= 5  # only what ran when it was killed ran again
