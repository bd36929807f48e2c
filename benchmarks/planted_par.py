"""Does the PAR search put attention where a task needs it, and nowhere else?

    python benchmarks/planted_par.py [--seeds 10] [--first 10] [--steps 1600]

The tag of a token is looked up in a random table by it and the one before it. Attention has to
fetch the earlier token; the 1,024 entries can then only be kept by feed-forwards, and the more of
them, the better. Attention here weighs places, not contents: it moves, but it cannot look up. (With
softmax attention, which can, four slots of attention learn such a table as well as two, so that
nothing is planted: see docs/log.md.) The orders in TRUTH are first trained one by one, to show what
the truth is. A search wins if the order it derives attends in the first half and nowhere else.
One thread. Results go to benchmarks/results/planted-par.json.
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import Parts, arguments

from formwright.arch import parse
from formwright.arch.attention import Attention
from formwright.arch.layer import Residual
from formwright.arch.mechanism import Synthesizer
from formwright.arch.style import Style, style
from formwright.estimate.training import known_task
from formwright.recipes import par
from formwright.recipes.life import begin
from formwright.recipes.session import Session
from formwright.strategy.gradient import SearchConfig
from formwright.train import TrainConfig, train

RESULTS = Parts("planted-par")
TASK = "planted-table?symbols=32&length=16&train=20000"
TRUTH = ("sfff", "fsff", "ssff", "ffsf", "sssf", "ssss", "ffff")


def family() -> Style:
    """Narrow layers; attention whose weights do not depend on the text."""
    usual = style("lra", 32, heads=2, inner=32)
    moves = Attention(2, bias=False, query_key="none", kind=Synthesizer(rank=16))
    branch = usual.letters["s"]
    assert isinstance(branch, Residual)
    return Style(usual.backbone, {**usual.letters, "s": branch.replace(inner=moves)})


def weights(steps: int) -> TrainConfig:
    """How the weights are trained, in the supernet and alone."""
    return TrainConfig(
        steps=steps, batch_tokens=512, lr=3e-3, warmup=50, log_every=steps, checkpoint_every=steps
    )


def truth(steps: int) -> dict[str, float]:
    """The loss of each order, trained alone."""
    task, found = known_task(TASK), {}
    for order in TRUTH:
        arch = parse(order, defaults=family()).bind(task.frame).check()
        _, result = train(arch, task, weights(steps).replace(score_batches=20))
        assert result.loss is not None
        found[order] = result.loss
        print(f"{order} alone: loss {result.loss:.3f}", flush=True)
    return found


def planted(steps: int, seed: int) -> par.Par:
    """The recipe on the planted task; nothing but the supernet is used of it."""
    return par.Par(
        name="par-xl-planted",
        task=TASK,
        family=family(),
        slots=4,
        search=weights(steps),
        choices=SearchConfig(warmup=steps // 4, every=5, lr=3e-2, weight_decay=5e-4),
        training=weights(steps),
        seed=seed,
    )


def order_found(recipe: par.Par) -> str:
    """The order that the supernet comes to like best, a letter for each slot."""
    with tempfile.TemporaryDirectory() as folder:
        study = begin(recipe, Path(folder))
        found = recipe.searched(Session(recipe, study), 0.0)["decisions"]
        study.close()
    return "".join(par.LETTERS[found[f"layer{i}"]] for i in range(recipe.slots))


def wins(order: str) -> bool:
    """Attention in the first half, and nowhere else."""
    half = len(order) // 2
    return "s" in order[:half] and "s" not in order[half:]


def main() -> None:
    """Search with every seed and keep what was found."""
    parser = arguments(__doc__, seeds=10)
    parser.add_argument("--first", type=int, default=10)
    parser.add_argument("--steps", type=int, default=1600)
    args = parser.parse_args()
    alone = truth(args.steps // 2)
    rows: list[dict[str, Any]] = []
    for seed in range(args.first, args.first + args.seeds):
        began = time.perf_counter()
        order = order_found(planted(args.steps, seed))
        seconds = time.perf_counter() - began
        rows.append({"seed": seed, "order": order, "wins": wins(order), "seconds": seconds})
        print(f"seed {seed}: {order}, {'wins' if wins(order) else 'loses'}", flush=True)
    won = sum(row["wins"] for row in rows)
    print(f"{won} of {len(rows)} win", flush=True)
    found = {
        "won": won,
        "seeds": len(rows),
        "steps": args.steps,
        "alone": alone,
        "median_seconds": statistics.median(row["seconds"] for row in rows),
        "rows": rows,
    }
    RESULTS.replace(found)


if __name__ == "__main__":
    main()
