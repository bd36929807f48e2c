"""How a recipe ends: within a moment when asked to, and once only when it is over."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formwright.arch import parse
from formwright.estimate.training import known_task
from formwright.recipes import usual
from formwright.recipes.life import begin, conduct
from formwright.recipes.recipe import recipe
from formwright.recipes.usual import UsualSearch
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.train import TrainConfig, train

TASK = "planted-near?length=12&symbols=4&train=200&valid=40&test=40"


def test_a_search_that_found_nothing_new_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = UsualSearch(
        task=TASK, estimator="decoder_params", cost="flops", seconds=None, trials=3, width=32
    )
    conduct(made, begin(made, tmp_path))
    outcome = read_outcome(tmp_path)
    assert outcome.headline
    monkeypatch.setattr(usual, "conclude", lambda *given: pytest.fail("measured again"))
    conduct(made, Study.open(tmp_path))
    assert read_outcome(tmp_path) == outcome
    monkeypatch.undo()
    conduct(replace(made, trials=6), Study.open(tmp_path))
    assert len(Study.open(tmp_path).trials) == 6
    assert read_outcome(tmp_path).headline


@pytest.mark.parametrize("where", ["baseline", "trials/000000"])
def test_training_heeds_a_wish_to_stop(where: str, tmp_path: Path) -> None:
    made: Any = recipe("par-bert", "smoke", task=TASK)
    steps = 100_000 if where == "baseline" else 60  # hours, if nobody stopped it; or a few seconds
    long = replace(made, target=None, training=made.training.replace(steps=steps, log_every=1))
    log = tmp_path / where / "run" / "log.jsonl"
    assert conduct(long, begin(long, tmp_path), stop=log.exists) == "stopped"
    last = json.loads(log.read_text().splitlines()[-1])
    assert last["step"] < 20
    assert not read_outcome(tmp_path).headline


@pytest.mark.parametrize("name", ["par", "fft-do", "dartformer-prune"])
def test_the_search_of_a_supernet_heeds_a_wish_to_stop(name: str, tmp_path: Path) -> None:
    made: Any = recipe(name, "smoke")
    long = replace(made, target=None, search=made.search.replace(steps=2000, log_every=1))

    def logs() -> list[Path]:
        return list(tmp_path.glob("supernet/**/log.jsonl"))

    assert conduct(long, begin(long, tmp_path), stop=lambda: bool(logs())) == "stopped"
    (log,) = logs()
    assert json.loads(log.read_text().splitlines()[-1])["step"] < 20


def test_scoring_heeds_a_wish_to_stop_and_only_it_is_repeated(tmp_path: Path) -> None:
    task = known_task(TASK)
    arch = parse("sf in bert(16, heads=2)", defaults=task.style(16)).bind(task.frame)
    config = TrainConfig(steps=3, batch_tokens=96, warmup=0, log_every=1)
    _, whole = train(arch, task, config, out=tmp_path / "once")
    asked = iter(range(100))
    _, first = train(
        arch, task, config, out=tmp_path / "again", stop=lambda: next(asked) >= config.steps
    )
    assert (first.state, first.steps, first.scores) == ("interrupted", 3, {})
    log = (tmp_path / "again" / "log.jsonl").read_text()
    _, second = train(arch, task, config, out=tmp_path / "again")
    assert (second.state, second.scores) == ("finished", whole.scores)
    assert (tmp_path / "again" / "log.jsonl").read_text() == log


def test_a_signal_while_the_baseline_trains_ends_the_command(tmp_path: Path) -> None:
    words = ["search", "fft-do", "--preset", "small", "--out", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "formwright.cli.main", *words],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 120
    while time.monotonic() < until and not (tmp_path / "baseline/run/log.jsonl").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "go on with: formwright resume" in out
    assert "Traceback" not in err
    assert list((tmp_path / "baseline" / "run").glob("checkpoint-*"))
