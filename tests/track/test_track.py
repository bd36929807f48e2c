"""Trackers: what they are told, and that none of them can stall, change or end a run."""

import hashlib
import os
import subprocess
import sys
import threading
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess
from tests.study import toy

from formwright import TrainConfig, load_task
from formwright.errors import InputError, UnknownName
from formwright.execute.serial import Serial
from formwright.study import run
from formwright.track import (
    Behind,
    Tracker,
    check_trackers,
    tracked,
    tracked_search,
    tracker_names,
    training_listener,
)
from formwright.track import base as track_base
from formwright.track.base import trackers
from formwright.train import train

NEVER = threading.Event()


class Kept(Tracker):
    """Keeps what it is told."""

    NAME = "kept"

    def begin(self) -> None:
        self.told: list[tuple[Mapping[str, float], int]] = []

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self.told.append((numbers, step))

    def end(self) -> None:
        self.told.append(({}, -1))


class NoNetwork(Kept):
    def begin(self) -> None:
        raise ConnectionError("no route to the server")


class Raises(Kept):
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        raise OSError(28, "No space left on device")


class Exits(Kept):
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        raise SystemExit(3)


class Hangs(Kept):
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        NEVER.wait()


class HangsAtOnce(Kept):
    def begin(self) -> None:
        NEVER.wait()


class Unwell(Kept):
    def end(self) -> None:
        raise RuntimeError("cannot\nend")


FAULTS = (NoNetwork, Raises, Exits, Hangs, HangsAtOnce, Unwell)


def trained(folder: Path, on_event: Callable[[dict[str, Any]], None] | None = None) -> str:
    """The SHA-256 of the weights of a short training."""
    task = load_task("listops-tiny?train=50&valid=20")
    config = TrainConfig(steps=6, batch_tokens=256, log_every=1, evaluate_every=3, dropout=0.1)
    train(task.architecture("sf", 16), task, config, out=folder, on_event=on_event)
    return hashlib.sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    return trained(tmp_path_factory.mktemp("alone") / "run")


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_a_tracker_that_fails_costs_one_warning_and_nothing_else(
    kind: type[Tracker], tmp_path: Path, alone: str
) -> None:
    warnings: list[str] = []
    behind = Behind(kind(tmp_path, {}), warnings.append, patience=0.2)
    assert trained(tmp_path / "run", training_listener(behind.log)) == alone
    behind.close()
    behind.log({"late": 1.0}, 1)
    behind.close()
    assert len(warnings) == 1
    assert "the run goes on without it" in warnings[0]
    assert "\n" not in warnings[0]


def test_a_tracker_that_works_hears_all_and_changes_nothing(tmp_path: Path, alone: str) -> None:
    warnings: list[str] = []
    tracker = Kept(tmp_path, {})
    behind = Behind(tracker, warnings.append)
    assert trained(tmp_path / "run", training_listener(behind.log)) == alone
    behind.close()
    assert warnings == []
    losses = [step for numbers, step in tracker.told if "step/loss" in numbers]
    assert losses == [1, 2, 3, 4, 5, 6]
    assert any("scores/accuracy" in numbers for numbers, _ in tracker.told)
    assert tracker.told[-1] == ({}, -1)


def test_a_tracker_that_falls_behind_loses_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, warnings = threading.Event(), []

    class Slow(Kept):
        def begin(self) -> None:
            super().begin()
            go.wait()

    monkeypatch.setattr(track_base, "_WAITING", 10)
    tracker = Slow(tmp_path, {})
    behind = Behind(tracker, warnings.append)
    for step in range(100):
        behind.log({"value": float(step)}, step)
    go.set()
    behind.close()
    assert len(warnings) == 1
    assert "does not keep up" in warnings[0]
    assert tracker.told[-2] == ({"value": 99.0}, 99)
    assert len(tracker.told) <= 11


def test_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    tracker = Kept(tmp_path, {})
    behind = Behind(tracker, pytest.fail)
    behind.log({"a": float("nan"), "b": 2.0}, 1)
    behind.log({"a": float("inf")}, 2)
    behind.close()
    assert tracker.told == [({"b": 2.0}, 1), ({}, -1)]


def test_a_second_seed_has_names_of_its_own() -> None:
    told: list[tuple[Mapping[str, float], int]] = []
    heard = training_listener(lambda numbers, step: told.append((numbers, step)))
    for kind in ("step", "end", "step"):
        heard({"kind": kind, "step": 1, "loss": 2.0})
    assert [list(numbers) for numbers, _ in told] == [["step/loss"], ["seed-1/step/loss"]]


def test_a_search_sends_every_trial_and_the_best_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Kept] = []

    class Noted(Kept):
        def begin(self) -> None:
            super().begin()
            made.append(self)

    trackers.add("noted", Noted)
    try:
        study = toy.study(tmp_path / "run")
        with tracked_search(["noted"], study.folder, study.meta, study.trials) as tell:
            run(study, Serial(toy.free), trials=12, on_event=tell)
    finally:
        trackers.forget("noted")
    told = made[0].told[:-1]
    assert sorted(step for _, step in told) == list(range(12))
    assert [numbers["trial/loss"] for numbers, _ in told] == [
        t.values["loss"] for t in study.trials
    ]
    assert told[-1][0]["best/loss"] == min(t.values["loss"] for t in study.trials)
    assert told[-1][0]["best/speed"] == max(t.values["speed"] for t in study.trials)
    study.close()


def test_unknown_and_missing_trackers_are_refused_before_anything_is_done(
    in_process: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"mlflow", "tensorboard", "wandb"} <= {*tracker_names()}
    with pytest.raises(UnknownName, match="Did you mean 'tensorboard'"):
        check_trackers(["tensorbord"])
    monkeypatch.setattr(track_base, "_installed", lambda module: False)
    with pytest.raises(InputError, match="pip install wandb"), tracked(["wandb"], tmp_path, {}):
        pass
    for verb in (["train", "sf", "--task", "listops-tiny"], ["search"]):
        done = in_process(*verb, "--log", "mlflow", "--out", str(tmp_path / "run"))
        assert done.returncode == 2
        assert "formwright[trackers]" in done.stderr
        assert not (tmp_path / "run").exists()


# --- those that there are ---------------------------------------------------------------


def test_tensorboard_reads_what_a_training_and_a_search_sent(
    in_process: InProcess, tmp_path: Path
) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="no TensorBoard"
    )

    def read(folder: Path) -> Any:
        found = accumulator.EventAccumulator(str(folder / "tensorboard"))
        found.Reload()
        return found

    task = "listops-tiny?train=50&valid=20"
    run = ["train", "sf", "--task", task, "--width", "16", "--steps", "4", "--set", "log_every=1"]
    done = in_process(*run, "--out", str(tmp_path / "one"), "--log", "tensorboard")
    assert (done.returncode, done.stderr) == (0, "")
    losses = read(tmp_path / "one").Scalars("step/loss")
    assert [event.step for event in losses] == [1, 2, 3, 4]

    search = ["search", "--task", task, "--estimator", "decoder_params", "--cost", "flops"]
    search += ["--trials", "4", "--workers", "1", "--width", "32", "--out", str(tmp_path / "two")]
    done = in_process(*search, "--log", "tensorboard")
    assert (done.returncode, done.stderr) == (0, "")
    flops = read(tmp_path / "two").Scalars("trial/flops")
    assert [event.step for event in flops] == [0, 1, 2, 3]
    assert all(event.value > 0 for event in flops)


@pytest.mark.slow
def test_mlflow_reads_what_was_sent(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed")
    pytest.importorskip("alembic", reason="alembic is not installed")
    program = """
import sys
from pathlib import Path
from formwright.track import tracked
folder = Path(sys.argv[1]) / "run"
with tracked(["mlflow"], folder, {"task": "x" * 9000, "seed": 0}) as log:
    for step in range(3):
        log({"step/loss": 1.0 / (step + 1), "odd: name": 1.0}, step)
from mlflow.tracking import MlflowClient
client = MlflowClient(tracking_uri=f"sqlite:///{folder.parent}/mlflow.db")
experiment = client.get_experiment_by_name("formwright")
(run,) = client.search_runs([experiment.experiment_id])
print(run.info.status, run.info.run_name, run.data.params["seed"],
      [metric.value for metric in client.get_metric_history(run.info.run_id, "step/loss")])
"""
    settings = {k: v for k, v in os.environ.items() if not k.startswith("MLFLOW")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True, check=False, env=settings, timeout=200,
    )  # fmt: skip
    assert "warning" not in done.stderr, done.stderr
    assert done.stdout.split("\n")[-2] == "FINISHED run 0 [1.0, 0.5, 0.3333333333333333]"


def test_wandb_is_told_of_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    fake = types.ModuleType("wandb")
    fake.init = lambda **options: (
        told.append(options)
        or types.SimpleNamespace(  # type: ignore
            log=told.append, finish=lambda: told.append("end")
        )
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    with tracked(["wandb"], tmp_path / "run", {"seed": 0}, pytest.fail) as log:
        log({"step/loss": 2.0}, 7)
    assert told[0]["project"] == "formwright"
    assert told[0]["config"] == {"seed": 0}
    assert told[1:] == [{"step/loss": 2.0, "step": 7}, "end"]
