"""Does a search on a Ray cluster survive the loss of a node, and do two workers do twice as much?

    python benchmarks/ray_cluster.py [--trials 200] [--only loss speed]

A cluster of a head and two nodes with one processor each is started on this machine's loopback.

loss    A search of 200 trials, in which one of the two nodes is killed (SIGKILL of its raylet)
        halfway and replaced a little later. Every trial must be in the record exactly once, and the
        record must be that of the same search in one process that nobody disturbed.
speed   Trials that each compute for 0.4 seconds of a processor, with one worker and with two. The
        wall-clock ratio is the speed-up, which other programs on the machine lower; beside it is
        how many trials were under way on average, which they do not.

Results go to benchmarks/results/ray.json, each part as it comes.
"""

import json
import os
import platform
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Parts, arguments

from formwright.execute import Ray, Serial
from formwright.execute.cluster import library
from formwright.space import OneOf, TreeSpace
from formwright.study import Event, Job, Rules, Study, run
from formwright.trial import Objective

RESULTS = Parts("ray")
SIZE = {"object_store_memory": 80 << 20, "include_dashboard": False}


@dataclass(frozen=True)
class Computed:
    """Values that follow from the decisions, after some seconds of a processor."""

    seconds: float

    def __call__(self, job: Job) -> Mapping[str, float]:
        began = time.process_time()
        total = float(sum(job.trial.decisions.values()))
        while time.process_time() - began < self.seconds:
            sum(i * i for i in range(2000))
        return {"error": 1 / total + (total % 7) / 100, "speed": 1 / total}


def new_study(folder: Path) -> Study:
    """An evolution that has eight trials under way at once."""
    axes = tuple(OneOf(f"width{i}", tuple(range(16, 272, 16))) for i in range(6))
    return Study.create(
        folder,
        space=TreeSpace(axes, name="widths"),
        objectives=(Objective("error"), Objective("speed", "max")),
        strategy="evolution",
        options={"population": 20, "tournament": 5},
        seed=11,
        rules=Rules(window=8),
    )


def archive(study: Study) -> list[dict[str, Any]]:
    """All of a study's trials that a repetition must give again."""
    return [{**vars(trial), "seconds": 0.0, "key": 0} for trial in study.trials]


def lose_a_node(cluster: Any, root: Path, trials: int) -> dict[str, Any]:
    """Kill a node halfway and compare with a search that nobody disturbed."""
    alone, made = new_study(root / "alone"), new_study(root / "cluster")
    run(alone, Serial(Computed(0.0)), trials=trials)
    killed: list[float] = []

    def watch(event: Event) -> None:
        if event.kind != "finished":
            return
        done = made.state.done
        if done >= trials // 2 and not killed:
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
            killed.append(done)
        elif done >= trials * 3 // 4 and len(killed) == 1:
            cluster.add_node(num_cpus=1, **SIZE)
            killed.append(done)

    began = time.perf_counter()
    ending = run(made, Ray(Computed(0.1), 8), trials=trials, on_event=watch)
    lost = [event["detail"] for event in made.events if event["what"] == "lost"]
    numbers = Counter(trial.number for trial in made.trials)
    found = {
        "trials": trials,
        "ending": ending,
        "killed_after": killed[0],
        "joined_after": killed[1],
        "seconds": time.perf_counter() - began,
        "recorded": len(made.trials),
        "exactly_once": numbers == Counter(range(trials)) and made.state.done == trials,
        "same_as_serial": archive(made) == archive(alone),
        "tries_lost": dict(Counter(lost)),
    }
    assert found["exactly_once"], found
    assert found["same_as_serial"], found
    return found


def speed_up(root: Path, trials: int) -> dict[str, Any]:
    """The same trials with one worker and with two."""
    found: dict[str, Any] = {"trials": trials, "load_before": os.getloadavg()[0]}
    warm = new_study(root / "warm")
    run(warm, Ray(Computed(0.1), 2), trials=8)  # processes are started and have imported all
    for workers in (1, 2):
        study = new_study(root / f"workers-{workers}")
        began = time.perf_counter()
        run(study, Ray(Computed(0.4), workers), trials=trials)
        wall = time.perf_counter() - began
        busy = sum(trial.seconds for trial in study.trials)
        found[f"workers_{workers}"] = {"wall": wall, "under_way_on_average": busy / wall}
    one, two = found["workers_1"], found["workers_2"]
    found["speed_up"] = one["wall"] / two["wall"]
    found["speed_up_without_other_load"] = two["under_way_on_average"] / one["under_way_on_average"]
    return found


def main() -> None:
    """Start a cluster, run the parts, keep what they found."""
    parser = arguments(__doc__, only=("loss", "speed"))
    parser.add_argument("--trials", type=int, default=200)
    args = parser.parse_args()
    ray = library(started=True)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **SIZE})
    for _ in range(2):
        cluster.add_node(num_cpus=1, **SIZE)
    ray.init(address=cluster.address, configure_logging=False, log_to_driver=False)
    versions = {"ray": ray.__version__, "python": platform.python_version()}
    try:
        with tempfile.TemporaryDirectory() as root:
            for name, part in (
                ("loss", lambda: lose_a_node(cluster, Path(root), args.trials)),
                ("speed", lambda: speed_up(Path(root), 96)),
            ):
                if args.only and name not in args.only:
                    continue
                found = part()
                print(name, json.dumps(found, indent=1), flush=True)
                with RESULTS.changing() as results:
                    results.update(versions, **{name: found})
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
