"""Processes that are started together: they meet, and the failure of one ends them all."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from formwright.errors import InputError
from formwright.train import launch as launching
from formwright.train.distributed import MEETING, leads, own_device
from formwright.train.launch import check_processes, launch, meeting


def python(program: str) -> list[str]:
    return [
        sys.executable,
        "-c",
        f"import os, sys, time\nrank = int(os.environ['RANK'])\n{program}",
    ]


def test_every_process_knows_its_place_and_only_the_first_speaks(
    capfd: pytest.CaptureFixture[str],
) -> None:
    where = f"os.path.dirname(os.environ['{MEETING}'])"
    program = f"print(rank, os.environ['WORLD_SIZE'], {where})"
    assert launch(python(program), 3) == 0
    (line,) = capfd.readouterr().out.splitlines()
    assert line.startswith("0 3 ")
    assert not Path(line.split()[2]).exists()


def test_when_one_fails_the_others_are_ended(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "_PATIENCE", 0.2)
    program = "sys.exit('broken here') if rank == 1 else time.sleep(60)"
    assert launch(python(program), 2) == 1
    assert "broken here" in capfd.readouterr().err


def test_a_killed_process_has_the_code_of_its_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_PATIENCE", 0.2)
    program = "os.kill(os.getpid(), 9) if rank == 1 else time.sleep(60)"
    assert launch(python(program), 2) == 128 + signal.SIGKILL


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="0 processes cannot train together"):
        check_processes(0)
    with meeting(4) as environment:
        assert {environment(rank)["RANK"] for rank in range(4)} == {"0", "1", "2", "3"}


def test_each_process_has_a_device_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda, second, cpu = map(torch.device, ("cuda", "cuda:1", "cpu"))
    assert leads()
    assert own_device(cuda) == cuda
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setenv("RANK", "3")
    assert not leads()
    assert own_device(cuda) == torch.device("cuda:3")
    assert (own_device(second), own_device(cpu)) == (second, cpu)


@pytest.mark.slow
def test_a_model_is_trained_by_two_stopped_and_ended_by_one(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("It was a dark night and nobody came. " * 300)
    words = [sys.executable, "-m", "formwright.cli.main", "train", "(sf)x1 in gpt2(16)"]
    words += ["--task", "lm:text.txt?length=16", "--steps", "2000", "--out", "run", "--json"]
    words += ["--set", "batch_tokens=64", "--set", "shard=true", "--set", "log_every=1"]
    begun = subprocess.Popen(
        [*words, "--processes", "2"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    log = tmp_path / "run" / "seed-0" / "log.jsonl"
    while not (log.exists() and log.read_text()) and begun.poll() is None:
        time.sleep(0.05)
    begun.send_signal(signal.SIGTERM)
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode == 143
    stopped = json.loads(said)  # one object, of the process that leads
    assert stopped["state"] == "interrupted"
    steps = stopped["steps"]
    (saved,) = (tmp_path / "run" / "seed-0").glob("checkpoint-*")
    state = json.loads((saved / "state.json").read_text())["state"]
    assert (state["lanes"], state["processes"]) == (2, 2)
    again = [*words, "--json"]
    process = subprocess.Popen(again, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    while len(log.read_text().splitlines()) < steps + 3 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    went_on = json.loads(process.communicate(timeout=120)[0])
    assert went_on["steps"] > steps
    numbers = [json.loads(line)["step"] for line in log.read_text().splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))
