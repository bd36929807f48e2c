"""How a recipe ends: within a moment when asked to, and once only when it is over."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formwright.arch import parse
from formwright.estimate.training import known_task
from formwright.recipes import conduct as conducting
from formwright.recipes.catalogue import recipe
from formwright.recipes.conduct import begin, conduct
from formwright.recipes.plan import Plan
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.train import TrainConfig, train

TASK = "planted-near?length=12&symbols=4&train=200&valid=40&test=40"


def par(**changes: Any) -> Any:
    """The smoke preset by FLOPs, which are the same every time."""
    made: Any = recipe("par-bert", "smoke", task=TASK)
    return replace(made, target=None, workers=1, **changes)


def values(folder: Path) -> list[dict[str, float]]:
    """What was measured, of the baseline and of all trials."""
    study, outcome = Study.open(folder), read_outcome(folder)
    assert outcome.baseline is not None
    rows = [outcome.baseline.values, *(trial.values for trial in study.trials)]
    return [{k: v for k, v in row.items() if k != "tokens_per_second"} for row in rows]


def once_there(path: Path) -> Callable[[], bool]:
    """Asks to stop from the moment on that something is begun."""
    return path.exists


def test_a_search_that_found_nothing_new_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(
        task=TASK, estimator="decoder_params", cost="flops", seconds=None, trials=3, width=32
    )
    _, outcome = conduct(begin(plan, tmp_path))
    monkeypatch.setattr(conducting, "conclude", lambda *given: pytest.fail("measured again"))
    _, again = conduct(Study.open(tmp_path))
    assert again == outcome
    monkeypatch.undo()
    _, more = conduct(Study.open(tmp_path), trials=6)
    assert len(Study.open(tmp_path).trials) == 6
    assert more.headline


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe that nobody stopped."""
    folder = tmp_path_factory.mktemp("whole")
    par().conduct(par().begin(folder))
    return folder


@pytest.mark.parametrize("where", ["baseline/run/run.json", "trials/000001/run/run.json"])
def test_training_heeds_a_wish_to_stop_and_goes_on_later(
    where: str, whole: Path, tmp_path: Path
) -> None:
    made = par()
    long = par(training=made.training.replace(steps=100_000))  # hours, if nobody stopped it
    asked = once_there(tmp_path / "long" / where)
    if "baseline" in where:
        assert long.conduct(long.begin(tmp_path / "long"), stop=asked) == "stopped"
        assert not read_outcome(tmp_path / "long").headline
    folder = tmp_path / "again"
    assert made.conduct(made.begin(folder), stop=once_there(folder / where)) == "stopped"
    assert made.conduct(made.begin(folder)) == "exhausted"
    assert values(folder) == values(whole)


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
