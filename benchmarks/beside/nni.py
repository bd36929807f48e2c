"""NNI: what a trial costs beside its training, and what is left when the search is killed.

    python -m beside.nni FOLDER      our search, until it is killed; a line for each trial

Trials cost nothing: six layers with two decisions in each, drawn at random. Ours keeps a record on
the disk, one fsync for each trial; NNI's default engine starts a server and a process for each
trial, its sequential engine keeps trials in memory. Then both run trials of 0.05 s in a process of
their own, which is killed (SIGKILL) when it has said that ten are done; counted is what the disk
holds. Seconds are of the processor, with those of all child processes; wall time is on record too,
which on a busy machine says little.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import study
from made_up import heads_and_widths
from rival import RIVALS, Rival, RivalError

from formwright.execute import Serial
from formwright.study import Job, Study, run

ENOUGH = 10  # trials done before the kill


def measured(
    rival: Rival, asked: argparse.Namespace, known: dict[str, Any], keep: Callable[..., None]
) -> None:
    """All engines, in turns; what is known is not measured again."""
    versions, _ = rival.ask("begin")
    keep(versions=versions)
    number, few = (50, 1) if asked.short else (200, 6)
    rows: list[dict[str, Any]] = list(known.get("seeds", []))
    for seed in range(len(rows), asked.seeds):
        row: dict[str, Any] = {"seed": seed, "ours": ours(number, seed), "errors": []}
        for engine, trials in (("sequential", number), ("default", few)):
            try:
                found, _ = rival.ask(
                    "run", engine=engine, trials=trials, seed=seed, port=18_200 + seed
                )
                row[engine] = per_trial(found)
            except RivalError as error:
                row[engine] = None
                row["errors"].append(f"{engine}: {error}")
        rows.append(row)
        keep(seeds=rows)
    if "killed" not in known:
        keep(killed=killed(rival, asked.python))


def per_trial(found: Mapping[str, float]) -> dict[str, float]:
    """Milliseconds of one trial."""
    trials = found["trials"]
    return {
        "trials": trials,
        "wall_ms": 1e3 * found["wall"] / trials,
        "processor_ms": 1e3 * found["processor"] / trials,
    }


def ours(number: int, seed: int) -> dict[str, float]:
    """Our search with its record, one fsync for each trial."""
    with tempfile.TemporaryDirectory() as folder:
        made = _made(Path(folder) / "study", seed)
        wall, processor = time.monotonic(), time.process_time()
        run(made, Serial(study.Plain()), trials=number)
        found = {"wall": time.monotonic() - wall, "processor": time.process_time() - processor}
        done = len(made.trials)
        made.close()
    return per_trial({"trials": done, **found})


def _made(folder: Path, seed: int) -> Study:
    return Study.create(
        folder, space=heads_and_widths(6), objectives=study.OBJECTIVES, strategy="random", seed=seed
    )


# --- killed -----------------------------------------------------------------------------


def killed(rival: Rival, python: Path) -> dict[str, Any]:
    """What both sides hold on the disk after ten trials and a SIGKILL."""
    found: dict[str, Any] = {}
    own = Path(__file__).resolve().parents[1]
    sides: dict[str, tuple[list[str], Path]] = {
        "nni": ([str(python.absolute()), str(RIVALS / "nni_side.py")], RIVALS),
        "ours": ([sys.executable, "-m", "beside.nni"], own),
    }
    for name, (command, place) in sides.items():
        with tempfile.TemporaryDirectory() as folder:
            done = _killed_at(command, place, Path(folder))
            files = sorted(p for p in Path(folder).rglob("*") if p.is_file())
            kept = [p.name for p in files if p.name not in ("told.txt", "said.log")]
            found[name] = {"done": done, "files": kept[:20]}
            if name == "ours":
                opened = Study.open(Path(folder) / "kept")
                found[name]["on_record"] = sum(trial.done for trial in opened.trials)
                opened.close()
            else:  # its checkpoint is all that an experiment reads when it is resumed
                state = next((p for p in files if p.name.startswith("state.ckpt")), None)
                found[name] |= _held(rival, state)
    return found


def _held(rival: Rival, state: Path | None) -> dict[str, Any]:
    """How many trials a checkpoint of NNI's speaks of, read by its own loader."""
    if state is None:
        return {"on_record": 0, "error": "there is no checkpoint"}
    try:
        held, _ = rival.ask("kept", file=str(state.with_name("state.ckpt")))
    except RivalError as error:
        return {"on_record": 0, "error": str(error)}
    return {"on_record": held["model_count"], "error": ""}


def _killed_at(command: list[str], place: Path, folder: Path) -> int:
    """Run until enough trials are done, and kill; how many were."""
    told = folder / "told.txt"
    with open(folder / "said.log", "wb") as log:
        process = subprocess.Popen(
            [*command, str(folder)],
            cwd=place,
            stdout=log,
            stderr=log,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
            | ({"PYTHONPATH": os.environ.get("PYTHONPATH", "")} if "-m" in command else {}),
        )
        limit = time.monotonic() + 300
        while _lines(told) < ENOUGH and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    if _lines(told) < ENOUGH:
        raise RivalError((folder / "said.log").read_text(errors="replace")[-500:])
    return _lines(told)


def _lines(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").splitlines()) if file.exists() else 0


class _Told(study.Plain):
    """Takes a moment, and leaves a line when it is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, job: Job) -> Mapping[str, float]:
        time.sleep(0.05)
        with open(self.folder / "told.txt", "a", encoding="utf-8") as file:
            file.write("done\n")
        return super().__call__(job)


def main(folder: Path) -> None:
    """Search until killed."""
    run(_made(folder / "kept", 0), Serial(_Told(folder)), trials=10**6)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
