"""How fast is the record of a search, and does it survive workers being killed?

    python benchmarks/study.py [--trials 5000] [--stored 100000]
    python benchmarks/study.py --kills 100 [--trials 1000] [--workers 8]

Without --kills: trials per second of a free evaluator with one fsync for each trial, with grouped
recording, and in batches, beside what the disk allows (plain commits of the same size); the time to
open and tell a study of many trials; the time of a claim in a small and in a large study; memory.
With --kills: workers are killed (SIGKILL) at random while they evaluate; every trial must be on
record once, with the values of a search that nobody disturbed.
Results go to benchmarks/results/study.json; each part replaces only its own figures.
"""

import json
import os
import platform
import random
import resource
import signal
import sqlite3
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import Parts, arguments
from made_up import heads_and_widths

from formwright.execute import Processes, Serial
from formwright.study import Job, Rules, Study, run
from formwright.study.folder import record_path
from formwright.study.rows import Addition, dumped
from formwright.study.store import Store
from formwright.trial import Objective, Trial

RESULTS = Parts("study")
OBJECTIVES = (Objective("loss"), Objective("speed", "max"))
BATCH = 32


def values_of(trial: Trial) -> dict[str, float]:
    total = sum(trial.decisions.values())
    return {"loss": 900 / total + total % 7, "speed": 1e4 / total}


class Plain:
    """Costs nothing."""

    def __call__(self, job: Job) -> Mapping[str, float]:
        return values_of(job.trial)


class Free(Plain):
    """Says that it costs nothing."""

    free = True


class Batch(Free):
    """Takes many at once."""

    batch = BATCH

    def evaluate_many(self, jobs: list[Job]) -> list[Mapping[str, float]]:
        return [values_of(job.trial) for job in jobs]


class Slow(Plain):
    """Takes a moment, and leaves a line each time."""

    def __init__(self, log: Path, pause: float) -> None:
        self.log, self.pause = log, pause

    def __call__(self, job: Job) -> Mapping[str, float]:
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{job.trial.number}\n")
        time.sleep(self.pause)
        return values_of(job.trial)


def make(folder: Path, window: int = 1) -> Study:
    return Study.create(
        folder,
        space=heads_and_widths(6),
        objectives=OBJECTIVES,
        strategy="random",
        seed=1,
        rules=Rules(window=window),
    )


def commits(root: Path, count: int = 300) -> float:
    """Commits per second that the disk allows, each of one row with one fsync."""
    connection = sqlite3.connect(root / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
    began = time.perf_counter()
    for number in range(count):
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 600))
    return count / (time.perf_counter() - began)


def speed(root: Path, trials: int) -> dict[str, Any]:
    """Trials per second by the wall and by the processor, one worker."""
    found = {"disk commits per second": round(commits(root))}
    for name, evaluate, window, count in (
        ("one fsync per trial", Plain(), 1, min(trials, 1000)),
        ("recorded in groups", Free(), 1, trials),
        (f"batches of {BATCH}", Batch(), BATCH, trials),
    ):
        study = make(root / name.replace(" ", "-"), window)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall, processor = time.perf_counter(), time.process_time()
        run(study, Serial(evaluate), trials=count)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        found[name] = {
            "trials": count,
            "trials per second": round(count / wall),
            "trials per processor second": round(count / processor),
            "memory grown, MB": round(grown / 1024, 1),
        }
    study = make(root / "members")
    began = time.process_time()
    for number in range(500):
        study.space.resolve(study.space.sample(random.Random(number)))
    found["processor ms to draw and resolve a member"] = round(
        (time.process_time() - began) * 1000 / 500, 3
    )
    return found


def resumed(root: Path, stored: int) -> dict[str, Any]:
    """Opening a study of many trials, telling a strategy of them all, claiming one more."""
    seen = {}
    for count in (1000, stored):
        study = make(root / f"of-{count}")
        with study.coordinate() as store:
            store.begin()
            for start in range(0, count, 5000):
                numbers = range(start, min(start + 5000, count))
                store.step([], [finished(study, number) for number in numbers], running=False)
            seen[f"ms to claim and finish among {count:,}"] = claiming(store, count)
    study.close()
    wall, processor = time.perf_counter(), time.process_time()
    opened = Study.open(root / f"of-{stored}")
    trials = opened.trials
    opened.make_strategy().tell_all(trials)
    return seen | {
        "trials": len(trials),
        "seconds to open and tell": round(time.perf_counter() - wall, 2),
        "of them on the processor": round(time.process_time() - processor, 2),
        "file, MB": round(record_path(opened.folder).stat().st_size / 1e6, 1),
    }


def finished(study: Study, number: int) -> Addition:
    """A trial as the search would have left it."""
    decisions = study.space.draw(random.Random(number))
    values = values_of(Trial(number, decisions))
    trial = Trial(number, decisions, f"{number:016x}", "done", values, origin="random")
    return Addition(trial, dumped(decisions))


def claiming(store: Store, count: int) -> float:
    """Median milliseconds to add, claim and finish one trial: three commits."""
    took = []
    for number in range(count, count + 30):
        trial = Trial(number, {"a": 1}, arch=f"{number:016x}")
        began = time.perf_counter()
        store.step([], [Addition(trial, '{"a":1}')], running=False)
        claim = store.claim("benchmark", 10)
        assert claim is not None
        done = Trial(number, {"a": 1}, state="done", values={"loss": 1.0, "speed": 1.0})
        store.finish(claim, done)
        took.append(time.perf_counter() - began)
    return round(sorted(took)[15] * 1000, 2)


def killed(root: Path, trials: int, kills: int, workers: int) -> dict[str, Any]:
    """Kill a random worker again and again until it was done ``kills`` times."""
    window = 2 * workers
    whole, study = make(root / "whole", window), make(root / "killed", window)
    run(whole, Serial(Free()), trials=trials)
    log, rng, over = root / "evaluated.txt", random.Random(0), threading.Event()
    executor = Processes(Slow(log, 0.3), workers)
    done = []

    def kill() -> None:
        while len(done) < kills and not over.wait(rng.uniform(0.3, 0.9)):
            ready = [hand.process.pid for hand in list(executor._handles) if hand.ready]
            if ready and (pid := rng.choice(ready)) is not None:
                os.kill(pid, signal.SIGKILL)
                done.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    began = time.perf_counter()
    try:
        run(study, executor, trials=trials)
    finally:
        over.set()
        killer.join()
    same = [(t.number, t.decisions, t.arch, t.state, t.values) for t in whole.trials] == [
        (t.number, t.decisions, t.arch, t.state, t.values) for t in study.trials
    ]
    again = Counter(log.read_text(encoding="utf-8").split())
    lost = sum(event["what"] == "lost" for event in study.events)
    with study.coordinate() as store:
        intact = store.database.intact()
    figures = {
        "trials": trials,
        "done": study.state.done,
        "workers": workers,
        "kills": len(done),
        "kills that cost a trial": lost,
        "evaluated again": sum(again.values()) - len(again),
        "same archive": same,
        "integrity check": intact,
        "seconds": round(time.perf_counter() - began, 1),
    }
    if not (same and intact == "ok" and study.state.done == trials):
        raise SystemExit(f"The record did not survive: {figures}")
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--stored", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--workers", type=int, default=8)
    given = parser.parse_args()
    machine = {
        "cores": os.cpu_count(),
        "load at the start": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    found: dict[str, Any] = {"machine": machine}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        if given.kills:
            trials = given.trials or 1000
            found["kills"] = killed(root, trials, given.kills, given.workers)
        else:
            found["speed"] = speed(root, given.trials or 5000)
            found["resume"] = resumed(root, given.stored)
    with RESULTS.changing() as known:
        known.update(found)
    print(json.dumps(known, indent=1))


if __name__ == "__main__":
    main()
