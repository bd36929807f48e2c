"""Students cut out of a teacher: how supernets rank them, what they cost, and the large table.

    python benchmarks/students.py PART [PART ...] [--seeds 3] [--short]

rank       20 students, ranked by their loss inside a supernet and by training each alone:
           Spearman's correlation (wanted: at least 0.7), as AutoDistil is published and as
           ``small`` has it: channels dealt out to relation heads, the teacher's last layer in
           every student
shots      three supernets for three ranges of size against one for all, with the same steps in all:
           mean relation loss of each range, three seeds (wanted: few is no worse)
shakespeare  one supernet on a text after 64 s of processor time, the largest, a middle and the
           smallest member (wanted: below 2.080, 2.187, 2.387 nats); needs --data FOLDER
step       time of a step of a student with a quarter of the FLOPs over that of the whole supernet
           (wanted: at most 0.35)
table      selection from a table of 1e8 models for new pairs of limits (wanted: under 2 s, 1 GiB)

A teacher of 4 layers, 64 wide, learns to fill in bytes of Python's standard library. Everything
runs in one thread. ``--short`` takes a tenth of the steps. Results, one key for each part:
benchmarks/results/students.json.
"""

import json
import math
import resource
import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any

import sandwich
import torch
from harness import Parts, arguments, unpacked

from formwright.arch import parse
from formwright.arch.counting import count
from formwright.distil.assembly import Assembly, Block
from formwright.distil.relations import RelationLoss
from formwright.model import Model, build
from formwright.recipes.picking import scored
from formwright.space import TreeSpace
from formwright.space.students import Grid, hull, shares_of, student_space, sub_spaces
from formwright.statistics import spearman
from formwright.strategy.gradient import (
    SandwichPolicy,
    SearchConfig,
    SupernetSearch,
    search_supernet,
)
from formwright.supernet import Supernet
from formwright.supernet.adopt import adopt
from formwright.supernet.gates import Gates, gates_of
from formwright.tasks import Task, load_task
from formwright.train import TrainConfig, train

RESULTS = Parts("students")
TASK, TEACHER = "stdlib-masked?length=32", "(sf)x4 in bert(64, heads=4, inner=256)"
CONFIG = TrainConfig(batch_tokens=1024, lr=1e-3, warmup=30, log_every=100, checkpoint_every=10**6)
ONLY = SearchConfig(every=0)
WANTED = {"largest": 2.080, "middle": 2.187, "smallest": 2.387}  # nats
STUDENTS = 20


def main() -> None:
    """Run some parts, and write down what they gave."""
    parts: dict[str, Callable[[Namespace], Any]] = {
        "rank": rank,
        "shots": shots,
        "shakespeare": shakespeare,
        "step": step,
        "table": table,
    }
    parser = arguments(__doc__, seeds=3, data=False)
    parser.add_argument("parts", nargs="+", choices=parts)
    parser.add_argument("--short", action="store_true")
    asked = parser.parse_args()
    for name in asked.parts:
        begin = time.process_time()
        found = parts[name](asked) | {"short": asked.short}
        RESULTS.keep(name, found | {"processor_seconds": round(time.process_time() - begin, 1)})


# --- what the parts share ---------------------------------------------------------------


def steps(asked: Namespace, whole: int) -> int:
    """Training steps of a part."""
    return max(10, whole // 10) if asked.short else whole


def taught(task: Task, asked: Namespace, seed: int) -> Model:
    """A teacher that has learnt the task."""
    arch = parse(TEACHER).replace(frame=task.frame)
    config = CONFIG.replace(steps=steps(asked, 700), lr=2e-3, seed=seed, score_batches=8)
    model, _ = train(build(arch, seed=seed), task, config)
    return model


def distilled(
    space: TreeSpace, teacher: Model, task: Task, taken: int, seed: int, **how: Any
) -> tuple[Supernet, RelationLoss]:
    """A supernet of students after so many steps of the relation loss, and that loss."""
    supernet, loss = (
        Supernet(space, seed=seed),
        RelationLoss(teacher, split=how.pop("split", "cut")),
    )
    adopt(supernet, teacher)
    config = CONFIG.replace(steps=taken, lr=5e-4, seed=seed)
    policy = SandwichPolicy(supernet, between=2, **{"turns": True, **how})
    search_supernet(supernet, policy, task, config, ONLY, loss=loss)
    return supernet, loss


def held_out(task: Task) -> list[Any]:
    """Batches that nobody learns from."""
    return list(islice(task.batches("valid", batch_tokens=CONFIG.batch_tokens), 8))


# --- the parts --------------------------------------------------------------------------


def rank(asked: Namespace) -> dict[str, Any]:
    """How a supernet ranks students that are then trained alone."""
    task, rows = load_task(TASK), []
    forms: dict[str, tuple[Any, Any]] = {
        "published": ("cut", "spread"),
        "ours": ("dealt", "to_last"),
    }
    for seed in range(asked.seeds):
        teacher = taught(task, asked, seed)
        for form, (split, which) in forms.items():
            rows.append(
                {"seed": seed, "form": form} | _ranked(asked, teacher, task, seed, split, which)
            )
            print(json.dumps(rows[-1]), flush=True)
    found = [row["spearman"] for row in rows if row["form"] == "ours"]
    return {"seeds": rows, "mean": statistics.fmean(found), "least": min(found), "wanted": 0.7}


def _ranked(
    asked: Namespace, teacher: Model, task: Task, seed: int, split: Any, which: Any
) -> dict[str, Any]:
    """One supernet of a teacher, and 20 of its students trained alone by the same loss."""
    space = student_space(teacher.arch, shares_of(teacher.arch, (0.5, 0.75, 1.0)), which=which)
    members = Random(seed).sample(list(space.members()), STUDENTS)
    batches, taken = held_out(task), steps(asked, 300)
    supernet, loss = distilled(space, teacher, task, taken, seed, split=split, turns=False)
    inside = scored(supernet, loss, batches, members, lambda: None)
    alone = []
    for decisions in members:
        fresh = Supernet(space, seed=seed)
        adopt(fresh, teacher)
        config = CONFIG.replace(steps=taken, lr=5e-4, score_batches=1, seed=seed)
        student, _ = train(fresh.extract(decisions), task, config, loss=loss)
        student.eval()
        with torch.no_grad():
            alone.append(sum(float(loss(student, b)) for b in batches) / len(batches))
    sizes = [float(count(space.resolve(d)).params) for d in members]
    return {
        "spearman": spearman(inside, alone),
        "by_size_alone": spearman([-size for size in sizes], alone),
    }


def shots(asked: Namespace) -> dict[str, Any]:
    """Few-shot against one-shot: the same students, the same steps in all."""
    task, rows = load_task(TASK), []
    whole = steps(asked, 900)
    for seed in range(asked.seeds):
        teacher = taught(task, asked, seed)
        grids = sub_spaces(teacher.arch)
        batches, found = held_out(task), {}
        around = student_space(teacher.arch, hull(grids.values()), name="all")
        one, loss = distilled(around, teacher, task, whole, seed)
        for name, grid in grids.items():
            space = student_space(teacher.arch, grid, name=name)
            members = list(space.members())
            few, own = distilled(space, teacher, task, whole // len(grids), seed)
            means = [
                statistics.fmean(scored(net, each, batches, members, lambda: None))
                for net, each in ((few, own), (one, loss))
            ]
            found[name] = {"few": means[0], "one": means[1], "no_worse": means[0] <= means[1]}
        rows.append({"seed": seed, "ranges": found})
        print(json.dumps(rows[-1]), flush=True)
    each = [r for row in rows for r in row["ranges"].values()]
    return {"seeds": rows, "no_worse": sum(r["no_worse"] for r in each), "of": len(each)}


def shakespeare(asked: Namespace) -> dict[str, Any]:
    """Members of one supernet after 64 s, as ``sandwich.py`` trains it."""
    if asked.data is None:
        raise SystemExit("shakespeare needs --data FOLDER, with train.txt and valid.txt.")
    rows = []
    with tempfile.TemporaryDirectory() as place:
        text = unpacked(asked.data, Path(place), "train.txt", "valid.txt")
        task = load_task(f"lm:{text}?length=64")
        for seed in range(asked.seeds):
            supernet, taken, spent = sandwich.sandwiched(task, 64.0, seed, turns=True)
            nats = {
                name: sandwich.score(task, supernet.extract(decisions)) * math.log(2)
                for name, decisions in sandwich.MEMBERS.items()
            }
            rows.append({"seed": seed, "steps": taken, "seconds": round(spent, 1), "nats": nats})
            print(json.dumps(rows[-1]), flush=True)
    means = {name: statistics.fmean(row["nats"][name] for row in rows) for name in WANTED}
    below = all(row["nats"][name] < most for row in rows for name, most in WANTED.items())
    return {"seeds": rows, "means": means, "wanted": WANTED, "all_below": below}


class _Fixed(SandwichPolicy):
    """One member at every update."""

    member: Any = None

    def draws(self, step: int, rng: torch.Generator) -> list[Gates]:
        """Its gates."""
        return [gates_of(self.slots, self.member)]


def step(asked: Namespace) -> dict[str, Any]:
    """A quarter of the FLOPs against all of them, turn by turn."""
    task, found = load_task("stdlib-masked?length=64"), {}
    shapes = ((256, 6, 4), (384, 6, 12)) if not asked.short else ((256, 6, 4),)
    for width, layers, heads in shapes:
        text = f"(sf)x{layers} in bert({width}, heads={heads}, inner={4 * width})"
        arch = parse(text).replace(frame=task.frame)
        shares = tuple(sorted({heads // 2, 3 * heads // 4, heads}))
        widths = (width // 2, 3 * width // 4, width)
        grid = Grid(tuple(range(layers // 2, layers + 1)), widths, (2.0, 3.0, 4.0), shares)
        space = student_space(arch, grid)
        supernet = Supernet(space, seed=0)
        adopt(supernet, build(arch, seed=0))
        found[text] = _timed(supernet, task, asked)
        print(text, json.dumps(found[text]), flush=True)
    return {"shapes": found, "wanted": 0.35}


def _timed(supernet: Supernet, task: Task, asked: Namespace) -> dict[str, Any]:
    space, length = supernet.space, task.frame.length
    whole = {name: slot.values[-1] for name, slot in supernet.slots.items()}
    most = count(space.resolve(whole), length=length).flops

    def share(decisions: Any) -> float:
        return count(space.resolve(decisions), length=length).flops / most

    quarter = min(space.members(), key=lambda d: (share(d) > 0.25, abs(share(d) - 0.25)))
    policy = _Fixed(supernet)
    config = CONFIG.replace(steps=10**6, batch_tokens=2048, lr=1e-5)
    search = SupernetSearch(supernet, policy, task, config, ONLY)
    times: dict[str, list[float]] = {"whole": [], "quarter": []}
    for _ in range(8 if asked.short else 16):
        for name, member in (("whole", whole), ("quarter", quarter)):
            policy.member, batch = member, search.engine.fetch()
            begin = time.process_time()
            search.step(batch, None)
            times[name].append(time.process_time() - begin)
    search.engine.close()
    middle = {name: statistics.median(row[2:]) for name, row in times.items()}
    return {
        "student": dict(quarter),
        "flops": share(quarter),
        "seconds": middle,
        "ratio": middle["quarter"] / middle["whole"],
    }


def table(asked: Namespace) -> dict[str, Any]:
    """New pairs of limits for 100 blocks at each of four places."""
    rng, widths = Random(1), (128, 192, 256, 384, 512)

    def block(number: int) -> Block:
        width = rng.choice(widths)
        params = rng.randint(1, 6) * width * width * rng.uniform(2, 8)
        loss = rng.uniform(0.5, 2) / (1 + params / 1e6)
        return Block(f"{width} {number}", width, params, params / 1e6 * rng.uniform(0.5, 2), loss)

    def between(row: tuple[int, ...]) -> tuple[float, float]:
        maps = sum(a * b for a, b in pairwise(row) if a != b)
        return row[0] * 30_522.0 + maps, 0.001 * row[-1]

    made = Assembly([[block(n) for n in range(100)] for _ in range(4)], between)
    least, fastest = made.smallest()
    took = []
    for _ in range(4 if asked.short else 20):
        limits = least * rng.uniform(1.05, 8), fastest * rng.uniform(1.5, 40)
        begin = time.process_time()
        found = partial(made.select, *limits, 100)()
        took.append(time.process_time() - begin)
        assert all(r.params <= limits[0] and r.latency <= limits[1] for r in found)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "rows": made.rows,
        "pairs": len(took),
        "median_seconds": statistics.median(took),
        "most_seconds": max(took),
        "peak_bytes_of_process": memory,
    }


if __name__ == "__main__":
    main()
