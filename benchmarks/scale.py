"""What would more workers bring, and can the controller keep up with them?

    python benchmarks/scale.py [--only controller windows staleness strategies] [--trials 1000000]

The loop, the strategies and the record are the real ones; workers and their clock are simulated
(``execute.simulated``). Trials take ten minutes in the middle; one in fifty straggles and takes
five times as long; each worker is lost once in a hundred hours.

controller: results a second that the loop takes, up to a million trials in the record, and memory.
windows: the share of time in which workers have a trial, for windows of 1 to 16 times their number.
staleness: how far from the best an evolution is after three hours, for the same windows.
strategies: how far from the best each strategy is, hour by hour, with 1 to 1,000 workers.

What is tried is made up: effects of twelve decisions, alone and in pairs. Results go to
benchmarks/results/scale.json, drawings to docs/images/scale-*.svg; docs/scale.md says what
they mean.
"""

import resource
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from harness import Parts, arguments

from formwright.execute.simulated import Simulated, World
from formwright.space import OneOf, TreeSpace
from formwright.study import Answer, Job, Rules, Study, run
from formwright.trial import Objective

RESULTS = Parts("scale")
PICTURES = Path(__file__).parents[1] / "docs" / "images"
DECISIONS, OPTIONS = 12, 6
WORLD = World()
FACTORS = (1, 2, 4, 8, 16)
FLEETS = (8, 100, 1000, 10_000)
# Workers, strategies, hours.
PLANS: tuple[tuple[int, tuple[str, ...], float], ...] = (
    (1, ("random", "evolution", "surrogate"), 48.0),
    (8, ("random", "evolution", "surrogate"), 24.0),
    (100, ("random", "evolution", "surrogate"), 3.0),
    (1000, ("random", "evolution"), 3.0),
)
MARKS = 24  # times at which a search is looked at
COLOURS = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#ccbb44")


class Landscape:
    """Made-up errors: each option has an effect, and so have pairs of neighbouring decisions."""

    free = True

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        self.alone = [[rng.gauss(0, 1) for _ in range(OPTIONS)] for _ in range(DECISIONS)]
        self.pairs = [
            [[rng.gauss(0, 0.7) for _ in range(OPTIONS)] for _ in range(OPTIONS)]
            for _ in range(DECISIONS)
        ]

    def __call__(self, job: Job) -> Mapping[str, float]:
        return {"error": self.error([job.trial.decisions[f"d{i}"] for i in range(DECISIONS)])}

    def error(self, chosen: list[int]) -> float:
        """Of one member; the lower the better."""
        alone = sum(row[c] for row, c in zip(self.alone, chosen, strict=True))
        following = [*chosen[1:], chosen[0]]
        return alone + sum(t[a][b] for t, a, b in zip(self.pairs, chosen, following, strict=True))

    def best(self) -> float:
        """The best member of all, exactly: a shortest closed path through the decisions."""
        found = []
        for first in range(OPTIONS):
            reached = {first: self.alone[0][first]}
            for i in range(1, DECISIONS):
                reached = {
                    b: min(v + self.pairs[i - 1][a][b] for a, v in reached.items())
                    + self.alone[i][b]
                    for b in range(OPTIONS)
                }
            found.append(min(v + self.pairs[-1][a][first] for a, v in reached.items()))
        return min(found)


def space() -> TreeSpace:
    """Twelve decisions with six options each: two billion members."""
    choices = [OneOf(f"d{i}", tuple(range(OPTIONS))) for i in range(DECISIONS)]
    return TreeSpace(tuple(choices), name="made up")


def study(folder: Path, strategy: str, window: int, seed: int) -> Study:
    """A new study of the made-up space."""
    return Study.create(
        folder,
        space=space(),
        objectives=(Objective("error"),),
        strategy=strategy,
        seed=seed,
        rules=Rules(window=window),
    )


# --- the controller ---------------------------------------------------------------------


def controller(trials: int, workers: int = 1000) -> dict[str, Any]:
    """Results a second, and memory, up to so many trials."""
    rows: list[dict[str, Any]] = []
    began, cpu = time.monotonic(), time.process_time()
    count = [0]

    def heard(clock: float, answer: Answer) -> None:
        count[0] += 1
        if count[0] in (1000, 10_000) or count[0] % 100_000 == 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            rows.append(
                {
                    "trials": count[0],
                    "seconds": round(time.monotonic() - began, 1),
                    "processor_seconds": round(time.process_time() - cpu, 1),
                    "memory_mb": round(peak),
                }
            )
            print(rows[-1], flush=True)

    with tempfile.TemporaryDirectory() as place:
        made = study(Path(place) / "s", "random", 2 * workers, 0)
        executor = Simulated(Landscape(0), workers, world=WORLD, on_answer=heard)
        run(made, executor, trials=trials)
        size = (made.folder / "study.db").stat().st_size
        assert made.state.done == trials
        made.close()
        opened = time.process_time()
        again = Study.open(Path(place) / "s")
        run(again, Simulated(Landscape(0), workers, world=WORLD), trials=trials + 10)
        resumed = time.process_time() - opened
        again.close()
    last = rows[-1]
    return {
        "workers": workers,
        "trials": trials,
        "results_per_second": round(trials / last["seconds"]),
        "results_per_processor_second": round(trials / last["processor_seconds"]),
        "memory_mb": last["memory_mb"],
        "record_mb": round(size / 1e6),
        "processor_seconds_to_resume": round(resumed, 1),
        "growth": rows,
    }


# --- windows ----------------------------------------------------------------------------


def windows() -> list[dict[str, Any]]:
    """How well workers are used, by the window."""
    rows = []
    for workers in FLEETS:
        for factor in FACTORS:
            if workers * factor > 40_000:
                continue
            hours = 4.0 if workers < 10_000 else 1.0
            with tempfile.TemporaryDirectory() as place:
                made = study(Path(place), "random", factor * workers, 0)
                executor = Simulated(Landscape(0), workers, world=WORLD)
                run(made, executor, stop=lambda e=executor, h=hours: e.clock >= 3600 * h)
                made.close()
            rows.append({"workers": workers, "factor": factor, "used": round(executor.used, 3)})
            print(rows[-1], flush=True)
    return rows


# --- strategies -------------------------------------------------------------------------


def strategies(seeds: int) -> list[dict[str, Any]]:
    """How far from the best, hour by hour."""
    rows = []
    for workers, names, hours in PLANS:
        for name in names:
            curves = [followed(workers, name, hours, seed) for seed in range(seeds)]
            mean = [round(sum(each) / len(each), 3) for each in zip(*curves, strict=True)]
            rows.append({"workers": workers, "strategy": name, "hours": hours, "gap": mean})
            print(workers, name, mean[-1], flush=True)
    return rows


def staleness(seeds: int, workers: int = 100, hours: float = 3.0) -> list[dict[str, Any]]:
    """What a larger window costs a strategy that learns, beside the workers that it keeps busy."""
    rows = []
    for factor in FACTORS:
        ends = [followed(workers, "evolution", hours, seed, factor)[-1] for seed in range(seeds)]
        gap = round(sum(ends) / len(ends), 3)
        rows.append({"workers": workers, "hours": hours, "factor": factor, "gap": gap})
        print(rows[-1], flush=True)
    return rows


def followed(workers: int, name: str, hours: float, seed: int, factor: int = 4) -> list[float]:
    """The gap to the best member at evenly spaced times, as a share of that of random members."""
    landscape = Landscape(seed)
    best, usual = landscape.best(), typical(landscape)
    seen: list[tuple[float, float]] = []

    def heard(clock: float, answer: Answer) -> None:
        seen.append((clock, answer.values["error"]))

    with tempfile.TemporaryDirectory() as place:
        window = 1 if workers == 1 else factor * workers
        made = study(Path(place), name, window, seed)
        executor = Simulated(landscape, workers, world=WORLD, on_answer=heard)
        run(made, executor, stop=lambda: executor.clock >= 3600 * hours)
        made.close()
    marks, found, at = [], usual, 0
    for mark in range(1, MARKS + 1):
        while at < len(seen) and seen[at][0] <= 3600 * hours * mark / MARKS:
            found, at = min(found, seen[at][1]), at + 1
        marks.append((found - best) / (usual - best))
    return marks


def typical(landscape: Landscape) -> float:
    """The error of a member at random, in the mean."""
    rng = Random(0)
    drawn = [[rng.randrange(OPTIONS) for _ in range(DECISIONS)] for _ in range(2000)]
    return sum(map(landscape.error, drawn)) / len(drawn)


# --- drawings ---------------------------------------------------------------------------


def chart(title: str, across: str, up: str, lines: Mapping[str, list[tuple[float, float]]]) -> str:
    """Lines of points; x from 0 to its largest, y from 0 to 1."""
    wide, high, left, top = 420, 240, 60, 40
    most = max(x for points in lines.values() for x, _ in points)

    def at(x: float, y: float) -> str:
        return f"{left + wide * x / most:.1f},{top + high * (1 - y):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide + left + 170} {high + 100}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{left}" y="20" font-size="14">{title}</text>',
        f'<text x="{left + wide / 2}" y="{top + high + 38}" text-anchor="middle">{across}</text>',
        f'<text x="14" y="{top - 8}">{up}</text>',
    ]
    for y in (0.0, 0.25, 0.5, 0.75, 1.0):
        start, end = at(0, y).split(","), at(most, y).split(",")
        parts.append(
            f'<line x1="{start[0]}" y1="{start[1]}" x2="{end[0]}" y2="{end[1]}" stroke="#ddd"/>'
            f'<text x="{left - 8}" y="{float(start[1]) + 4}" text-anchor="end">{y:g}</text>'
        )
    for x in sorted({x for points in lines.values() for x, _ in points})[:: 1 if most < 20 else 4]:
        place = at(x, 0).split(",")
        parts.append(
            f'<text x="{place[0]}" y="{top + high + 18}" text-anchor="middle">{x:g}</text>'
        )
    for (name, points), colour in zip(lines.items(), COLOURS, strict=False):
        path = " ".join(at(x, y) for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = top + 10 + 20 * list(lines).index(name)
        parts.append(
            f'<line x1="{left + wide + 14}" y1="{y}" x2="{left + wide + 38}" y2="{y}" '
            f'stroke="{colour}" stroke-width="2"/>'
            f'<text x="{left + wide + 44}" y="{y + 4}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def draw(found: Mapping[str, Any]) -> None:
    """Every drawing that there are figures for."""
    if "windows" in found:
        lines: dict[str, list[tuple[float, float]]] = {}
        for row in found["windows"]:
            name = f"{row['workers']:,} workers"
            lines.setdefault(name, []).append((row["factor"], row["used"]))
        text = chart("How well workers are used", "window, in trials per worker", "share", lines)
        (PICTURES / "scale-windows.svg").write_text(text)
    for workers, _, hours in PLANS if "strategies" in found else ():
        rows = [row for row in found["strategies"] if row["workers"] == workers]
        lines = {
            row["strategy"]: [(hours * (i + 1) / MARKS, y) for i, y in enumerate(row["gap"])]
            for row in rows
        }
        named = f"{workers:,} worker{'s' if workers > 1 else ''}"
        text = chart(f"Gap to the best, {named}", "hours", "share of a random member's", lines)
        (PICTURES / f"scale-{workers}.svg").write_text(text)


def main() -> None:
    """Measure what is asked for and keep it beside the rest."""
    parser = arguments(__doc__, seeds=3, only=("controller", "windows", "staleness", "strategies"))
    parser.add_argument("--trials", type=int, default=1_000_000)
    args = parser.parse_args()
    parts = {
        "controller": lambda: controller(args.trials),
        "windows": windows,
        "staleness": lambda: staleness(args.seeds),
        "strategies": lambda: strategies(args.seeds),
    }
    for name in args.only or parts:
        RESULTS.keep(name, parts[name](), say=False)
        draw(RESULTS.read())


if __name__ == "__main__":
    main()
