"""How well shared weights rank the members of a space, for every policy, against what that costs.

    python benchmarks/rank.py [--spaces order maybe] [--steps 300 1200] [--seeds 3] [--smoke]

Two spaces that are small enough for all members to be trained alone: ``order`` has four slots of
attention, feed-forward or nothing (31 different functions), ``maybe`` has six sub-layers each of
which may be left out (64). Every member is trained alone from each seed, which is kept as a table
in the results file, so that it is done once. Then each policy trains a supernet for so many steps,
and all members are scored by the weights they share. Reported, for each policy, number of steps and
seed: the rank correlation with the members' mean loss alone (Spearman, with its interval), where
the member that is best by shared weights comes alone, and the seconds of training and scoring over
those of one member alone. The correlation between two seeds of the table itself is the most that
can be reached. One thread; a file that exists is continued. Results: benchmarks/results/rank.json.
"""

import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import Parts, arguments, results

from formwright.arch.architecture import Architecture
from formwright.arch.style import style
from formwright.errors import SpecError
from formwright.estimate.training import known_task
from formwright.recipes import mix
from formwright.recipes.orders import NOTHING
from formwright.space import Decisions, Maybe, TreeSpace
from formwright.space.choice import stack_of
from formwright.space.order import order_space
from formwright.statistics import spearman, spearman_interval
from formwright.strategy.gradient import search_supernet
from formwright.supernet import Supernet
from formwright.train import TrainConfig, train

TASK = "stdlib?length=32"
TRAIN = TrainConfig(steps=600, batch_tokens=1024, lr=2e-3, warmup=50, score_batches=32)
WIDTH, SLOTS, BRANCHES = 32, 4, 6


def space_called(name: str) -> TreeSpace:
    """One of the two spaces."""
    family, frame = style("gpt2", WIDTH, heads=2), known_task(TASK).frame
    if name == "order":
        return order_space(family, frame, slots=SLOTS, letters="sfi")
    rows = [Maybe(f"layer{i}", family.letters["sf"[i % 2]]) for i in range(BRANCHES)]
    return TreeSpace(Architecture(stack_of(*rows), family.backbone, frame=frame), name="maybe")


def members_of(name: str, space: TreeSpace) -> dict[str, Decisions]:
    """Members that are different functions: nothing may stand anywhere, and changes nothing."""
    found: dict[str, Decisions] = {}
    for decisions in space.members():
        options = [int(option) for option in decisions.values()]  # type: ignore[arg-type]
        kept = [o for o in options if o != NOTHING] if name == "order" else options
        found.setdefault("".join(map(str, kept)) or "-", decisions)
    return found


def alone(name: str, config: TrainConfig, table: dict[str, Any], out: Parts, seed: int) -> None:
    """The loss of every member trained alone, put into the table one by one."""
    space = space_called(name)
    rows = table.setdefault(name, {}).setdefault(str(seed), {})
    for word, decisions in members_of(name, space).items():
        if word not in rows:
            began = time.perf_counter()
            arch = space.resolve(decisions)
            _, result = train(arch, known_task(TASK), config.replace(seed=seed))
            rows[word] = {"loss": result.loss, "seconds": time.perf_counter() - began}
            out.keep("alone", table, say=False)
    print(f"{name}, seed {seed}: {len(rows)} members trained alone", flush=True)


def shared(name: str, policy: str, config: TrainConfig, batches: int) -> dict[str, Any]:
    """The loss of every member with the weights of a supernet that a policy trained."""
    space, task = space_called(name), known_task(TASK)
    made = replace(mix.small(), policy=policy, search=config, choices=mix.CHOICES[policy])  # type: ignore[arg-type]
    supernet = Supernet(space, seed=config.seed)
    holder = made.holder(supernet, None, 0.0)
    choices = replace(made.choices, warmup=min(made.choices.warmup, (config.steps or 0) // 4))
    began = time.perf_counter()
    search_supernet(supernet, holder, task, config, choices)
    trained = time.perf_counter() - began
    losses = {}
    for word, decisions in members_of(name, space).items():
        with supernet.gated(decisions):
            found = task.score(supernet, batch_tokens=config.batch_tokens, limit=batches)
        losses[word] = found["loss"]
    return {"losses": losses, "seconds": trained, "scoring": time.perf_counter() - began - trained}


def compared(found: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """Shared weights against the table: how they rank, and where their best comes."""
    words = list(found["losses"])
    ours = [found["losses"][word] for word in words]
    theirs = [statistics.fmean(rows[word]["loss"] for rows in table.values()) for word in words]
    rank = spearman(ours, theirs)
    best = theirs[ours.index(min(ours))]
    one = statistics.fmean(row["seconds"] for rows in table.values() for row in rows.values())
    return {
        "spearman": round(rank, 4),
        "interval": [round(end, 4) for end in spearman_interval(rank, len(words))],
        "place_of_best": 1 + sum(loss < best for loss in theirs),
        "members": len(words),
        "seconds": round(found["seconds"], 1),
        "scoring_seconds": round(found["scoring"], 1),
        "cost_in_members": round((found["seconds"] + found["scoring"]) / one, 2),
    }


def ceiling(table: dict[str, Any]) -> float | None:
    """How far two seeds of members trained alone agree: no ranking can be better than that."""
    rows = [[row["loss"] for row in seed.values()] for seed in table.values()]
    pairs = [(a, b) for i, a in enumerate(rows) for b in rows[i + 1 :]]
    return round(statistics.fmean(spearman(a, b) for a, b in pairs), 4) if pairs else None


def main() -> None:
    """Tables first, then every policy that can hold the gates of a space."""
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("--spaces", nargs="+", choices=("order", "maybe"), default=["order"])
    parser.add_argument("--policies", nargs="+", choices=mix.POLICIES, default=list(mix.POLICIES))
    parser.add_argument("--steps", nargs="+", type=int, default=[600, 2400])
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    parser.add_argument("--out", type=Path, default=results("rank"))
    asked = parser.parse_args()
    out = Parts(asked.out)
    out.replace({"alone": {}, "shared": {}, **out.read()})
    config = TRAIN.replace(steps=2, batch_tokens=64, score_batches=1) if asked.smoke else TRAIN
    steps, batches = ([4], 1) if asked.smoke else (asked.steps, 32)
    for name in asked.spaces:
        table = out.read()["alone"]
        for seed in range(asked.seeds):
            alone(name, config, table, out, seed)
        for policy in asked.policies:
            for number in steps:
                for seed in range(asked.seeds):
                    known = out.read()["shared"]
                    key = f"{name}/{policy}/{number}/{seed}"
                    if key in known:
                        continue
                    try:
                        found = shared(
                            name, policy, config.replace(steps=number, seed=seed), batches
                        )
                    except SpecError as error:
                        print(f"{key}: {error}", flush=True)
                        continue
                    known[key] = {**compared(found, table[name]), "losses": found["losses"]}
                    out.keep("shared", known, say=False)
                    print(f"{key}: {known[key]['spearman']:+.2f}", flush=True)
        with out.changing() as found:
            found.setdefault("ceiling", {})[name] = ceiling(table[name])


if __name__ == "__main__":
    main()
