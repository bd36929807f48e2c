"""Does the PAR search put attention where a task needs it?

    python benchmarks/planted_par.py [--seeds 10] [--slots 4] [--steps 800]

The tag of a token is the sum of it and the one before it, modulo 16. Attention has to fetch the
earlier token first; working out the sum can then be left to feed-forwards, token by token. A search
wins if the order it derives attends in the first half and nowhere else. Later attention is not
needed, but nothing forbids it either, and it has no price here. One thread. Results go to
benchmarks/results/planted-par.json.
"""

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from formwright.arch.position import T5Buckets
from formwright.arch.style import style
from formwright.recipes import par
from formwright.strategy.gradient import SearchConfig
from formwright.train import TrainConfig

RESULTS = Path(__file__).parent / "results" / "planted-par.json"


def planted(slots: int, steps: int, seed: int) -> par.Par:
    """The recipe on the planted task; nothing but the supernet is used of it."""
    family = style("lra", 32, heads=2, inner=64)
    family = replace(family, backbone=family.backbone.replace(position=T5Buckets()))
    weights = TrainConfig(
        steps=steps, batch_tokens=512, lr=3e-3, warmup=50, log_every=steps, checkpoint_every=steps
    )
    return par.Par(
        name="par-xl-planted",
        task="planted-tag?symbols=16&length=16&train=20000",
        family=family,
        slots=slots,
        search=weights,
        choices=SearchConfig(warmup=steps // 4, every=5, lr=3e-2, weight_decay=5e-4),
        training=weights,
        seed=seed,
    )


def order_found(recipe: par.Par) -> str:
    """The order that the supernet comes to like best, a letter for each slot."""
    with tempfile.TemporaryDirectory() as folder:
        study = recipe.begin(Path(folder))
        found = par.search(recipe, study)
        study.close()
    assert found is not None
    return "".join(par.LETTERS[int(found[f"layer{i}"])] for i in range(recipe.slots))  # type: ignore[arg-type]


def wins(order: str) -> bool:
    """Attention in the first half, and nowhere else."""
    half = len(order) // 2
    return "s" in order[:half] and "s" not in order[half:]


def main() -> None:
    """Search with every seed and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--steps", type=int, default=800)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in range(args.seeds):
        began = time.perf_counter()
        order = order_found(planted(args.slots, args.steps, seed))
        seconds = time.perf_counter() - began
        rows.append({"seed": seed, "order": order, "wins": wins(order), "seconds": seconds})
        print(f"seed {seed}: {order}, {'wins' if wins(order) else 'loses'}", flush=True)
    won = sum(row["wins"] for row in rows)
    print(f"{won} of {len(rows)} win", flush=True)
    found = {
        "won": won,
        "seeds": len(rows),
        "slots": args.slots,
        "steps": args.steps,
        "median_seconds": statistics.median(row["seconds"] for row in rows),
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
