"""The loop: it learns, it stops when it should, and a killed run ends as one never killed."""

import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers import free_port
from tests.train.killable import config as killable_config
from tests.train.toy import ToyTask, architecture

from formwright.errors import InputError, StorageError
from formwright.model import build, load_model
from formwright.train import TrainConfig, train, train_seeds
from formwright.train.checkpoint import read_latest
from formwright.train.optim import Lamb
from formwright.train.schedule import rate

QUICK = TrainConfig(steps=40, batch_tokens=96, lr=5e-3, warmup=5, checkpoint_every=10, log_every=5)


def weights_hash(folder: Path) -> str:
    return hashlib.sha256((folder / "model" / "model.safetensors").read_bytes()).hexdigest()


def start(folder: Path, *rest: int | str | float) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.train.killable", str(folder), *map(str, rest)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(folder: Path, *rest: int | str | float) -> None:
    with start(folder, *rest) as process:
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err


def test_it_learns() -> None:
    _, before = train(architecture(), ToyTask(), QUICK.replace(steps=1))
    _, after = train(architecture(), ToyTask(), QUICK.replace(steps=250))
    assert before.loss is not None
    assert after.loss is not None
    assert after.state == "finished"
    assert after.loss < before.loss - 0.8


@pytest.mark.parametrize("optimiser", ["adamw", "adafactor", "lamb", "muon"])
@pytest.mark.parametrize("schedule", ["cosine", "linear", "inverse_sqrt", "constant", "wsd"])
def test_every_optimiser_and_schedule_lowers_the_loss(optimiser: Any, schedule: Any) -> None:
    config = QUICK.replace(optimiser=optimiser, schedule=schedule, steps=60)
    _, first = train(architecture(), ToyTask(), config.replace(steps=1))
    _, last = train(architecture(), ToyTask(), config)
    assert last.loss is not None
    assert first.loss is not None
    assert last.loss < first.loss


@pytest.mark.parametrize("optimiser", ["adamw", "adafactor", "lamb", "muon"])
def test_every_optimiser_goes_on_to_the_bit(optimiser: Any, tmp_path: Path) -> None:
    config = QUICK.replace(optimiser=optimiser, steps=25, dropout=0.1)
    whole, _ = train(architecture(), ToyTask(), config)
    left = iter([False] * 12 + [True])
    train(architecture(), ToyTask(), config, out=tmp_path, stop=lambda: next(left))
    model, result = train(architecture(), ToyTask(), config, out=tmp_path)
    assert result.steps == 25
    for name, wanted in whole.state_dict().items():
        assert torch.equal(model.state_dict()[name], wanted)


def test_the_same_seed_trains_the_same_weights_and_another_seed_others() -> None:
    one, two, other = (
        train(architecture(), ToyTask(), QUICK.replace(seed=s, dropout=0.2))[0].state_dict()
        for s in (1, 1, 2)
    )
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_evaluating_and_logging_do_not_change_what_is_learned() -> None:
    plain = train(architecture(), ToyTask(), QUICK.replace(dropout=0.1))[0].state_dict()
    often = QUICK.replace(dropout=0.1, evaluate_every=3, log_every=1)
    watched = train(architecture(), ToyTask(), often)[0].state_dict()
    assert all(torch.equal(plain[name], watched[name]) for name in plain)


def test_accumulating_batches_averages_their_gradients() -> None:
    numbers = QUICK.replace(steps=1, optimiser="lamb", clip=0.0, weight_decay=0.0, warmup=0)
    trained, _ = train(architecture(), ToyTask(), numbers.replace(accumulate=3))
    task = ToyTask()
    model = build(architecture().bind(task.frame), seed=0)
    plan = task.sampler(batch_tokens=96, seed=0)
    sum(task.loss(model, plan.batch(i)) / 3 for i in range(3)).backward()
    Lamb(model.parameters(), lr=rate(numbers, 0, 0.0), betas=numbers.betas).step()
    for name, wanted in model.state_dict().items():
        torch.testing.assert_close(trained.state_dict()[name], wanted, rtol=0, atol=1e-6)


def test_a_loss_that_is_no_number_is_a_verdict_not_an_error(tmp_path: Path) -> None:
    _, result = train(architecture(), ToyTask(poison=13), QUICK, out=tmp_path / "run")
    assert result.state == "diverged"
    assert "stopped being a number" in result.reason
    assert result.value is None
    assert json.loads((tmp_path / "run" / "result.json").read_text())["state"] == "diverged"


def test_a_loss_that_explodes_is_a_verdict() -> None:
    config = QUICK.replace(lr=9.0, clip=0.0, warmup=0, schedule="constant", steps=300, log_every=1)
    _, result = train(architecture(), ToyTask(), config)
    assert result.state == "diverged"


def test_early_stopping_waits_as_long_as_told() -> None:
    config = QUICK.replace(steps=1000, lr=1e-9, evaluate_every=2, patience=3)
    _, result = train(architecture(), ToyTask(), config)
    assert result.state == "finished"
    assert "no better metric for 3 looks" in result.reason
    assert result.steps < 1000


WILD = QUICK.replace(  # a rate so high that the last weights are not the best
    lr=0.1, schedule="constant", steps=43, evaluate_every=4, keep_best=True, checkpoint_every=6
)


def looks(folder: Path) -> dict[int, float]:
    """The metric of every look, by its step."""
    lines = map(json.loads, (folder / "log.jsonl").read_text().splitlines())
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "scores"}


def test_the_best_weights_are_kept_scored_and_saved(tmp_path: Path) -> None:
    model, result = train(architecture(), ToyTask(), WILD, out=tmp_path)
    found = looks(tmp_path)
    assert [*found] == [*range(4, 41, 4), 43], "the end is a look too"
    best = min(found, key=lambda step: found[step])
    assert best != 43
    assert result.loss == result.value == found[best]
    assert result.steps == 43
    # a run that ends there has the weights that this one kept
    there, _ = train(architecture(), ToyTask(), WILD.replace(steps=best, keep_best=False))
    saved = load_model(tmp_path / "model").state_dict()
    again, same = train(architecture(), ToyTask(), WILD, out=tmp_path)
    assert same == result
    for name, wanted in there.state_dict().items():
        assert torch.equal(model.state_dict()[name], wanted)
        assert torch.equal(saved[name], wanted)
        assert torch.equal(again.state_dict()[name], wanted)


def test_a_stopped_run_keeps_the_same_best_weights(tmp_path: Path) -> None:
    whole, _ = train(architecture(), ToyTask(), WILD)
    for steps in range(1, 43, 5):
        left = iter([False] * (steps - 1) + [True])
        train(architecture(), ToyTask(), WILD, out=tmp_path / f"{steps}", stop=lambda: next(left))  # noqa: B023
        model, _ = train(architecture(), ToyTask(), WILD, out=tmp_path / f"{steps}")
        for name, wanted in whole.state_dict().items():
            assert torch.equal(model.state_dict()[name], wanted)


def test_a_run_that_goes_on_does_so_from_its_last_weights(tmp_path: Path) -> None:
    train(architecture(), ToyTask(), WILD, out=tmp_path)
    saved, _ = read_latest(tmp_path)
    assert saved is not None
    plain, _ = train(architecture(), ToyTask(), WILD.replace(keep_best=False))
    for name, wanted in plain.state_dict().items():
        assert torch.equal(saved.tensors["model"][name], wanted)


def test_keeping_the_best_without_looks_is_refused() -> None:
    with pytest.raises(InputError, match="evaluate_every"):
        QUICK.replace(keep_best=True)


def test_a_run_that_gave_up_does_not_go_on_when_its_end_was_interrupted(tmp_path: Path) -> None:
    config = QUICK.replace(steps=1000, lr=1e-9, evaluate_every=2, patience=3)
    _, first = train(architecture(), ToyTask(), config, out=tmp_path)
    (tmp_path / "result.json").unlink()  # killed just before it was written
    _, again = train(architecture(), ToyTask(), config, out=tmp_path)
    assert (again.steps, again.reason) == (first.steps, first.reason)


def test_an_end_that_is_not_scored_saves_no_model(tmp_path: Path) -> None:
    _, result = train(architecture(), ToyTask(), QUICK.replace(score_batches=0), out=tmp_path)
    assert (result.state, result.value, result.scores) == ("finished", None, {})
    assert not (tmp_path / "model").exists()
    assert checkpoints(tmp_path)


def test_a_step_and_its_share_of_a_processor_are_counted(tmp_path: Path) -> None:
    left = iter([False] * 9 + [True])
    train(architecture(), ToyTask(), QUICK, out=tmp_path, stop=lambda: next(left))
    saved, _ = read_latest(tmp_path)
    assert saved is not None
    assert saved.state["pace"][0] == 10
    _, result = train(architecture(), ToyTask(), QUICK, out=tmp_path)
    assert result.step_seconds > saved.state["pace"][1] / 40 > 0, "earlier sessions count"
    assert result.processor_share > 0


def test_a_time_limit_ends_the_run() -> None:
    config = QUICK.replace(steps=None, seconds=0.5)
    started = time.perf_counter()
    _, result = train(architecture(), ToyTask(), config)
    assert result.state == "finished"
    assert time.perf_counter() - started < 10
    assert result.steps > 1


def test_bfloat16_trains_and_fp16_is_refused() -> None:
    _, result = train(architecture(), ToyTask(), QUICK.replace(precision="bf16"))
    assert result.state == "finished"
    with pytest.raises(InputError, match="fp16"):
        QUICK.replace(precision="fp16")


def test_several_seeds_give_mean_and_spread() -> None:
    seeds = train_seeds(architecture(), ToyTask(), QUICK, [0, 1, 2])
    assert len(seeds.values) == 3
    assert seeds.mean == pytest.approx(sum(seeds.values) / 3)
    assert seeds.spread is not None
    assert seeds.spread > 0


def test_a_finished_run_gives_its_result_again(tmp_path: Path) -> None:
    _, first = train(architecture(), ToyTask(), QUICK, out=tmp_path)
    task = ToyTask()
    model, again = train(architecture(), task, QUICK, out=tmp_path)
    assert again == first
    assert task.calls == 0
    saved = load_model(tmp_path / "model").state_dict()
    assert all(torch.equal(saved[k], v) for k, v in model.state_dict().items())


def test_another_run_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    train(architecture(), ToyTask(), QUICK, out=tmp_path)
    with pytest.raises(InputError, match=r"lr \(0\.005 before, 0\.1 now\)"):
        train(architecture(), ToyTask(), QUICK.replace(lr=0.1), out=tmp_path)


def test_a_run_begun_before_a_number_was_added_goes_on(tmp_path: Path) -> None:
    train(architecture(), ToyTask(), QUICK, out=tmp_path)
    run = json.loads((tmp_path / "run.json").read_text())
    del run["config"]["keep_best"], run["config"]["cooldown"]
    (tmp_path / "run.json").write_text(json.dumps(run))
    _, result = train(architecture(), ToyTask(), QUICK, out=tmp_path)
    assert result.steps == 40
    with pytest.raises(InputError, match=r"cooldown \(0\.3 before, 0\.5 now\)"):
        train(architecture(), ToyTask(), QUICK.replace(cooldown=0.5), out=tmp_path)


def test_two_runs_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    with start(tmp_path / "run", 3000, "fp32", 0.01) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(StorageError, match=f"in use by process {process.pid}"):
            train(architecture(), ToyTask(), killable_config(3000, "fp32"), out=tmp_path / "run")
        process.kill()


@pytest.mark.parametrize("rest", [("fp32", 0.02), ("bf16", 0.02), ("fp32", 0.02, "best")])
def test_a_run_killed_at_any_moment_ends_in_the_same_weights(
    tmp_path: Path, rest: tuple[str | float, ...]
) -> None:
    steps = 60
    whole = tmp_path / "whole"
    began = time.perf_counter()
    finish(whole, steps, *rest)
    duration = time.perf_counter() - began
    killed = tmp_path / "killed"
    rng = random.Random(str(rest))
    for _ in range(3):
        with start(killed, steps, *rest) as process:
            time.sleep(rng.uniform(0.5, 1.0) * duration)
            process.send_signal(signal.SIGKILL)
    finish(killed, steps, *rest)
    assert weights_hash(killed) == weights_hash(whole)
    log = (killed / "log.jsonl").read_text().splitlines()
    plain = [{k: v for k, v in json.loads(x).items() if "second" not in k} for x in log]
    wanted = (whole / "log.jsonl").read_text().splitlines()
    assert plain == [{k: v for k, v in json.loads(x).items() if "second" not in k} for x in wanted]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_run_before_it_ends(tmp_path: Path, number: int) -> None:
    with start(tmp_path, 5000, "fp32", 0.001) as process:
        assert process.stdout is not None
        for _ in range(5):
            process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert list(tmp_path.glob("checkpoint-*"))
    assert not (tmp_path / "result.json").exists()


def checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob("checkpoint-*"))


def test_a_damaged_checkpoint_is_passed_over_and_said(tmp_path: Path) -> None:
    numbers = QUICK.replace(steps=35)
    whole, _ = train(architecture(), ToyTask(), numbers, out=tmp_path / "whole")
    rng = random.Random(0)
    for case in range(12):
        folder = tmp_path / f"case{case}"
        task = ToyTask()
        train(architecture(), task, numbers, out=folder)
        (folder / "result.json").unlink()
        newest = checkpoints(folder)[-1]
        victim = rng.choice(sorted(newest.iterdir()))
        content = bytearray(victim.read_bytes())
        at = rng.randrange(len(content))
        if case % 2:
            victim.write_bytes(content[:at])  # cut off
        else:
            content[at] ^= 1 << rng.randrange(8)  # one bit turned over
            victim.write_bytes(content)
        events: list[dict[str, Any]] = []
        model, _ = train(architecture(), ToyTask(), numbers, out=folder, on_event=events.append)
        assert [e for e in events if e["kind"] == "fault"], victim
        assert all(torch.equal(v, model.state_dict()[k]) for k, v in whole.state_dict().items())


def test_when_no_checkpoint_is_whole_the_run_says_so(tmp_path: Path) -> None:
    train(architecture(), ToyTask(), QUICK, out=tmp_path)
    (tmp_path / "result.json").unlink()
    for folder in checkpoints(tmp_path):
        (folder / "state.json").write_text("{}")
    with pytest.raises(StorageError, match=r"No checkpoint .* is whole"):
        train(architecture(), ToyTask(), QUICK, out=tmp_path)


def test_a_full_disk_leaves_the_older_checkpoints_intact(tmp_path: Path) -> None:
    train(architecture(), ToyTask(), QUICK.replace(steps=20), out=tmp_path)
    (tmp_path / "result.json").unlink()
    before = {p: p.read_bytes() for c in checkpoints(tmp_path) for p in c.iterdir()}
    run = json.loads((tmp_path / "run.json").read_text())
    run["config"]["steps"] = 60
    (tmp_path / "run.json").write_text(json.dumps(run))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        with pytest.raises(StorageError, match="no room for a checkpoint of"):
            train(architecture(), ToyTask(), QUICK.replace(steps=60), out=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert {p: p.read_bytes() for c in checkpoints(tmp_path) for p in c.iterdir()} == before
    _, result = train(architecture(), ToyTask(), QUICK.replace(steps=60), out=tmp_path)
    assert result.state == "finished"


@pytest.mark.parametrize(
    ("shard", "optimiser", "apart"),
    # Muon computes in bfloat16: sums in another order end a little further apart
    [(False, "adamw", 1e-5), (True, "adamw", 1e-5), (True, "muon", 2e-3)],
)
def test_two_processes_train_as_one_that_reads_both_their_batches(
    tmp_path: Path, shard: bool, optimiser: Any, apart: float
) -> None:
    """Also where they were stopped and went on from a checkpoint."""
    program, root = tmp_path / "program.py", Path(__file__).parents[2]
    program.write_text(
        "import os\n"
        "import torch\n"
        "torch.set_num_threads(1)\n"
        "from formwright.train import TrainConfig, train\n"
        "from tests.train.toy import ToyTask, architecture\n"
        "config = TrainConfig(steps=12, batch_tokens=48, checkpoint_every=6,"
        f" shard={shard}, optimiser={optimiser!r})\n"
        "asked = iter([False] * 4 + [True])\n"
        "for stop in (lambda: next(asked), None):\n"
        "    run = (architecture(), ToyTask(), config)\n"
        f"    model, result = train(*run, out={str(tmp_path / 'run')!r}, stop=stop)\n"
        "    os.write(1, f'{result.state} {result.tokens}\\n'.encode())\n"  # a line at once
        "torch.distributed.destroy_process_group()\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    command += ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    done = subprocess.run(
        [*command, str(program)],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root / 'src'}:{root}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("interrupted 480") == done.stdout.count("finished 1152") == 2
    found = load_model(tmp_path / "run" / "model").state_dict()
    one = TrainConfig(steps=12, batch_tokens=48, accumulate=2, optimiser=optimiser)  # reads both
    wanted = train(architecture(), ToyTask(), one)[0].state_dict()
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=apart)
