"""Does a run survive being killed, and its checkpoints being cut short?

    python benchmarks/kills.py [--kills 20] [--cuts 60] [--only fp32 cuts bf16]

Runs of ``formwright train`` are killed (SIGKILL) once each, at moments spread evenly at random over
their training; every fourth one waits for the next checkpoint and is killed while that is being
written. The same command then continues, and must end with the very bytes of weights of a run that
nobody killed. Then files of checkpoints are cut at random bytes: the run must fall back to the
older checkpoint and end with those bytes, or end with code 2 and one sentence on what is damaged.
Results go to benchmarks/results/kills.json; the first thing that goes wrong ends the benchmark.
"""

import argparse
import hashlib
import inspect
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from harness import Parts, arguments

from formwright.cli.main import main as command_line

RESULTS = Parts("kills")
# Children begin with everything imported: a run then lasts about as long as its training.
PRELOADED = ["formwright.cli.main", "formwright.cli.progress", "formwright.tasks.lm"]
PRELOADED += ["formwright.cli.resolve", "formwright.train", "torch._dynamo"]  # optimisers load it
STEPS, EVERY = 60, 3
SETTINGS = {
    "memory": 16,
    "dropout": 0.1,
    "accumulate": 2,
    "batch_tokens": 128,
    "warmup": 20,
    "checkpoint_every": EVERY,
    "evaluate_every": 20,
    "valid_batches": 2,
    "log_every": 5,
}


@dataclass(frozen=True)
class Kill:
    """One killed run."""

    seconds: float  # after its training began
    aimed: bool  # at a checkpoint being written
    checkpoint: int  # the newest one that was in place, 0 for none
    writing: bool  # a checkpoint was half written
    same: bool  # continued, it ended with the same bytes


class Runs:
    """Starts runs that differ in folder and precision alone."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.text = root / "text.txt"
        self.text.write_text(inspect.getsource(argparse), encoding="utf-8")
        self.errors = root / "errors.txt"
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)

    def start(self, folder: Path, precision: str) -> BaseProcess:
        """The command, in a process of its own."""
        words = ["train", "(sf)x2 in transformer_xl(32)", "--task", f"lm:{self.text}?length=32"]
        words += ["--steps", str(STEPS), "--out", str(folder), "--set", f"precision={precision}"]
        words += [word for item in SETTINGS.items() for word in ("--set", "{}={}".format(*item))]
        process = self.context.Process(target=_child, args=(words, self.errors))
        process.start()
        return process

    def finish(self, folder: Path, precision: str) -> tuple[int | None, str]:
        """To the end: the exit code, and what was said to the user."""
        process = self.start(folder, precision)
        process.join(300)
        return process.exitcode, self.errors.read_text(encoding="utf-8")


def _child(words: list[str], errors: Path) -> None:
    with open(errors, "w", encoding="utf-8") as file, open(os.devnull, "w") as nothing:
        os.dup2(file.fileno(), 2)
        os.dup2(nothing.fileno(), 1)
    sys.argv = ["formwright", *words]
    command_line()


def seed_folder(folder: Path) -> Path:
    """Where the command puts the run of its first seed."""
    return folder / "seed-0"


def weights_hash(folder: Path) -> str:
    """SHA-256 of the weights a run ended with."""
    content = (seed_folder(folder) / "model" / "model.safetensors").read_bytes()
    return hashlib.sha256(content).hexdigest()


def checkpoints(folder: Path) -> list[Path]:
    """Those in place, oldest first."""
    return sorted(seed_folder(folder).glob("checkpoint-*"))


def half_written(folder: Path) -> list[Path]:
    """Checkpoints that are being written."""
    return list(seed_folder(folder).glob(".writing-*"))


def wait_until(happened: Any, process: BaseProcess) -> None:
    """Look often, and stop looking when the process is gone."""
    while process.is_alive() and not happened():
        time.sleep(0.0002)


# --- kills ------------------------------------------------------------------------------


def whole_run(runs: Runs, precision: str) -> tuple[Path, float]:
    """A run that nobody kills, and how long it trains."""
    folder = runs.root / f"whole-{precision}"
    process = runs.start(folder, precision)
    wait_until((seed_folder(folder) / "run.json").exists, process)
    began = time.perf_counter()
    process.join(300)
    assert process.exitcode == 0, runs.errors.read_text()
    return folder, time.perf_counter() - began


def kill_once(runs: Runs, precision: str, wanted: str, seconds: float, aimed: bool) -> Kill:
    """Begin, kill, continue, compare."""
    folder = runs.root / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    process = runs.start(folder, precision)
    wait_until((seed_folder(folder) / "run.json").exists, process)
    time.sleep(seconds)
    if aimed:
        wait_until(lambda: half_written(folder), process)
    process.kill()
    process.join()
    found = checkpoints(folder)
    step = int(found[-1].name.split("-")[1]) if found else 0
    writing = bool(half_written(folder))
    code, said = runs.finish(folder, precision)
    assert code == 0, said
    assert not half_written(folder), "a half-written checkpoint was left behind"
    kill = Kill(seconds, aimed, step, writing, weights_hash(folder) == wanted)
    assert kill.same, f"other weights than the run that nobody killed: {kill}"
    return kill


# --- cuts -------------------------------------------------------------------------------


def cut(path: Path, rng: random.Random) -> None:
    """Keep the beginning of a file, possibly nothing of it."""
    os.truncate(path, rng.randrange(path.stat().st_size))


def stopped_run(runs: Runs) -> Path:
    """A run that was killed when it had two checkpoints: one that ended keeps none."""
    folder = runs.root / "stopped"
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        process = runs.start(folder, "fp32")
        wait_until(lambda: len(checkpoints(folder)) == 2, process)
        process.kill()
        process.join()
        if len(checkpoints(folder)) == 2:
            return folder


def cut_once(runs: Runs, stopped: Path, case: int, rng: random.Random) -> str:
    """Damage one file, or one of each checkpoint; gives how the run took it."""
    folder, whole = runs.root / "cut", runs.root / "whole-fp32"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stopped, folder)
    older, newer = checkpoints(folder)
    names = sorted(path.name for path in newer.iterdir())
    name = names[case // 3 % len(names)]  # every file in turn, in each of the three ways
    both = case % 3 == 2
    if case % 3 != 1:
        cut(newer / name, rng)
    if case % 3 != 0:
        cut(older / rng.choice(names) if both else older / name, rng)
    code, said = runs.finish(folder, "fp32")
    if both:
        assert code == 2, (code, said)
        last = said.strip().splitlines()[-1]
        assert "No checkpoint of" in last, said
        assert "Traceback" not in said, said
        assert not (seed_folder(folder) / "model").exists(), "weights from nowhere"
        return "both cut: ended with code 2"
    assert code == 0, said
    assert weights_hash(folder) == weights_hash(whole), f"other weights: {newer / name}"
    if case % 3 == 0:
        assert f"{newer.name} is damaged" in said, said
        return "newest cut: said so, fell back, same weights"
    return "older cut: not needed, same weights"


def kill_often(runs: Runs, precision: str, count: int) -> dict[str, Any]:
    """Kill so many runs, each at a moment of its own."""
    whole, duration = whole_run(runs, precision)
    wanted, rng, kills = weights_hash(whole), random.Random(precision), []
    for trial in range(count):
        kill = kill_once(runs, precision, wanted, rng.uniform(0, duration), trial % 4 == 3)
        print(precision, kill, flush=True)
        kills.append(kill)
    return {
        "training_seconds": duration,
        "sha256": wanted,
        "kills": len(kills),
        "same_weights": sum(kill.same for kill in kills),
        "while_writing_a_checkpoint": sum(kill.writing for kill in kills),
        "each": [asdict(kill) for kill in kills],
    }


def cut_often(runs: Runs, count: int) -> dict[str, int]:
    """Cut files of so many copies of a run; how often each outcome was seen."""
    rng, stopped = random.Random(0), stopped_run(runs)
    if not (runs.root / "whole-fp32").exists():
        whole_run(runs, "fp32")
    outcomes = Counter(cut_once(runs, stopped, case, rng) for case in range(count))
    for outcome, times in outcomes.items():
        print(f"{times:4} {outcome}", flush=True)
    return dict(outcomes)


def main() -> None:
    """Kill, cut, and keep the counts as they come."""
    parser = arguments(__doc__, only=["fp32", "cuts", "bf16"])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--cuts", type=int, default=60)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    before = RESULTS.read() if args.only else {}
    RESULTS.replace({**before, "steps": STEPS, "checkpoint_every": EVERY})
    with tempfile.TemporaryDirectory() as root:
        runs = Runs(Path(root))
        for name, part in (
            ("fp32", lambda: kill_often(runs, "fp32", args.kills)),
            ("cuts", lambda: cut_often(runs, args.cuts)),
            ("bf16", lambda: kill_often(runs, "bf16", args.kills)),
        ):
            if args.only and name not in args.only:
                continue
            RESULTS.keep(name, part(), say=False)


if __name__ == "__main__":
    main()
