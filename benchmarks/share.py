"""Do weights taken over from a relative rank models better than short training alone?

    python benchmarks/share.py [--parents 6] [--children 3] [--steps 60] [--end 720] [--seed 0]

Random members of the open space are trained on the standard library for ``steps``; changed members
of each are trained for as long, once from new weights and once from those of the member that they
were made from, each with the cool-down that a search judges by; then from new weights to the end.
What is told: the rank correlation of both with the end, over all children and among those of one
parent, which had the same start. One thread, about 20 minutes of one core. Results:
benchmarks/results/share.json.
"""

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from harness import Parts, arguments

from formwright.estimate.inherited import FromParent, Inherited
from formwright.recipes.plan import COOLED
from formwright.recipes.usual import UsualSearch
from formwright.statistics import spearman, spearman_interval
from formwright.trial import Trial

RESULTS = Parts("share")
METRIC = "bits_per_byte"


@dataclass(frozen=True)
class Task:
    """One training: what an estimator is given."""

    arch: Any
    trial: Trial
    folder: Path
    seed: int
    previous: Path | None = None
    parents: tuple[Path, ...] = ()


def main() -> None:
    """Train, correlate, write."""
    parser = arguments(__doc__)
    parser.add_argument("--parents", type=int, default=6)
    parser.add_argument("--children", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--end", type=int, default=720)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = families(asked, Path(folder))
    found = {**vars(asked), "rows": rows, **correlated(rows)}
    RESULTS.replace(found)
    print(json.dumps({k: v for k, v in found.items() if k != "rows"}, indent=1))


def families(asked: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Every child: alone, with its parent's weights, and at the end."""
    recipe = UsualSearch()
    space, rng = recipe.make_space(), Random(asked.seed)
    rows = []
    for family in range(asked.parents):
        parent = space.sample(rng)
        first = folder / f"{family}"
        bits(recipe, space.resolve(parent), asked.steps, asked.seed, first)
        for number in range(asked.children):
            arch = space.resolve(space.mutate(parent, rng))
            place = folder / f"{family}-{number}"
            row = {
                "family": family,
                "alone": bits(recipe, arch, asked.steps, asked.seed, place / "a"),
                "shared": bits(recipe, arch, asked.steps, asked.seed, place / "b", (first,)),
                "end": bits(recipe, arch, asked.end, asked.seed + 1, place / "c"),
            }
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def bits(
    recipe: UsualSearch,
    arch: Any,
    steps: int,
    seed: int,
    folder: Path,
    parents: tuple[Path, ...] = (),
) -> float:
    """What one training comes to, judged as trials of a search are."""
    estimator = Inherited(
        recipe.task,
        recipe.training.replace(steps=steps),
        last=1,  # its trunk is kept, as that of a trial which may go on
        cooldown=COOLED,
        fair=True,
        source=FromParent(),
    )
    work = Task(arch, Trial(0, {}, steps=steps), folder, seed, parents=parents)
    return float(estimator(work)[METRIC])


def correlated(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rank correlations with the end, over all and within families."""
    found: dict[str, Any] = {}
    ends = [row["end"] for row in rows]
    families = {row["family"]: [r for r in rows if r["family"] == row["family"]] for row in rows}
    for way in ("alone", "shared"):
        over_all = spearman([row[way] for row in rows], ends)
        inside = [spearman([r[way] for r in f], [r["end"] for r in f]) for f in families.values()]
        found[way] = {
            "correlation": round(over_all, 3),
            "interval": [round(end, 3) for end in spearman_interval(over_all, len(rows))],
            "within_families": round(fmean(inside), 3),
        }
    return found


if __name__ == "__main__":
    main()
