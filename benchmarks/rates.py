"""Which peak rate suits which width and depth? What ``rate_for`` rests on.

    python benchmarks/rates.py [--steps 250] [--tokens 512]

Llama-style models of several widths (at 6 sub-layers) and depths (at width 128) learn the text of
Python's standard library from new weights with each of a few rates, which fall linearly to zero.
They have a convolution in front of each attention: without it so few steps end on a plateau (what
the last byte alone says), and when a model leaves it is chance.
The best rate of a shape is the lowest point of a parabola through the losses over the logarithm of
the rate; the exponents of width and depth are fitted to these. One thread; about seven minutes of
one core. Results go to benchmarks/results/rates.json.
"""

import math
from typing import Any

import numpy as np
from harness import Parts, arguments

from formwright.tasks import load_task
from formwright.tasks.base import Task
from formwright.train import TrainConfig, train

RESULTS = Parts("rates")
SHAPES = ((64, 6), (128, 6), (256, 6), (128, 3), (128, 12))  # width, sub-layers
RATES = (1e-3, 2e-3, 4e-3, 8e-3)


def losses(task: Task, width: int, depth: int, config: TrainConfig) -> list[float]:
    """The validation loss that each rate comes to; infinite where it diverged."""
    arch = task.architecture(f"(csf)x{depth // 3} in llama({width})", width)
    found = []
    for lr in RATES:
        _, result = train(arch, task, config.replace(lr=lr))
        found.append(result.loss if result.loss is not None else math.inf)
        print(f"width {width:3} depth {depth:2} rate {lr:g}: {found[-1]:.4f}", flush=True)
    return found


def best_rate(found: list[float]) -> float:
    """The lowest point of a parabola through the three points around the best rate."""
    middle = min(max(int(np.argmin(found)), 1), len(RATES) - 2)
    near = slice(middle - 1, middle + 2)
    a, b, _ = np.polyfit(np.log2(RATES[near]), found[near], 2)
    at = -b / (2 * a) if a > 0 else math.log2(RATES[int(np.argmin(found))])
    inside = min(max(at, math.log2(RATES[0]) - 1), math.log2(RATES[-1]) + 1)
    return float(2**inside)


def exponents(best: dict[tuple[int, int], float]) -> dict[str, float]:
    """Rate at width 128 and 8 sub-layers, and the powers of width and depth, by least squares."""
    rows = [(1.0, math.log(width / 128), math.log(depth / 8)) for width, depth in best]
    logs = np.log(list(best.values()))
    base, width, depth = np.linalg.lstsq(np.array(rows), logs, rcond=None)[0]
    return {"base": math.exp(base), "width": float(width), "depth": float(depth)}


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=250)
    parser.add_argument("--tokens", type=int, default=512)
    args = parser.parse_args()
    config = TrainConfig(
        steps=args.steps,
        batch_tokens=args.tokens,
        schedule="linear",
        warmup=20,
        score_batches=128,
        checkpoint_every=10**6,
    )
    task = load_task("stdlib?length=128")
    table: list[dict[str, Any]] = []
    best = {}
    for width, depth in SHAPES:
        found = losses(task, width, depth, config)
        best[width, depth] = best_rate(found)
        row = {"width": width, "depth": depth, "best": best[width, depth]}
        table.append({**row, "losses": dict(zip(map(str, RATES), found, strict=True))})
        print(f"width {width:3} depth {depth:2} best {best[width, depth]:.2g}", flush=True)
    fit = exponents(best)
    print(f"rate = {fit['base']:.2g} (width/128)^{fit['width']:.2f} (depth/8)^{fit['depth']:.2f}")
    RESULTS.replace({"config": config.to_data(), "shapes": table, "fit": fit})


if __name__ == "__main__":
    main()
