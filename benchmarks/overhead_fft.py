"""What a step of a search costs over a step of plain training, for Finding Fast Transformers.

    python benchmarks/overhead_fft.py [--blocks 12] [--width 256] [--dropout 0.0] [--out FILE]

A network of MiniBERT's shape is trained, and searched by DO and by SDO, all three in turns in one
process, eight steps at a time: of DO's eight, one teaches the gates. The ratio is the median over
blocks, with its 95 % interval. The paper reports 1.4. One thread.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import Parts, arguments, results

from formwright.arch import Architecture
from formwright.cost import Meter, Target
from formwright.cost.components import shares_of_time
from formwright.cost.machine import cpu
from formwright.cost.paired import ratio_of
from formwright.estimate.training import known_task
from formwright.model import build
from formwright.recipes.fft import small
from formwright.space.components import Cut, prices
from formwright.strategy.gradient import SupernetSearch
from formwright.supernet import Supernet
from formwright.train import TrainConfig
from formwright.train.distributed import join_world
from formwright.train.engine import Engine

TASK = "planted-sofar?length=32&symbols=4"
BLOCK = 8
PRICE = 0.4


def plain(cut: Cut, config: TrainConfig) -> Callable[[int], None]:
    """A step of training the whole network."""
    task, device = known_task(TASK), torch.device("cpu")
    model = build(cut.baseline(task.frame), dropout=config.dropout)
    engine = Engine(model, task, config, device, join_world(device))

    def step(number: int) -> None:
        engine.step()

    return step


def searching(
    kind: str, cut: Cut, config: TrainConfig, costs: dict[str, list[float]]
) -> Callable[[int], None]:
    """A step of a search, data loading included."""
    task = known_task(TASK)
    supernet = Supernet(cut.components(task.frame), dropout=config.dropout)
    (method,) = small(f"mini-{kind}").methods
    means = [name for name in supernet.slots if name.startswith("mean")]
    policy = method.policy(supernet, costs, PRICE, means)
    search = SupernetSearch(supernet, policy, task, config, method.choices)
    plan = task.sampler(batch_tokens=config.batch_tokens, seed=config.seed)

    def step(number: int) -> None:
        batch = plan.batch(number)
        weights, choices = search.config.teaches(number)
        search.step(batch if weights else None, batch if choices else None)

    return step


def main() -> None:
    """Take steps in turns and keep what they took."""
    parser = arguments(__doc__)
    parser.add_argument("--blocks", type=int, default=12)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=results("overhead-fft"))
    args = parser.parse_args()
    cut = Cut(
        layers=3, width=args.width, heads=4, inner=4 * args.width, head_parts=4, inner_parts=8
    )
    config = TrainConfig(
        steps=BLOCK * args.blocks, batch_tokens=2048, dropout=args.dropout, warmup=10
    )
    meter = Meter(Target(batch=16, length=32))

    def measure(arch: Architecture) -> float:
        return meter.measure(arch, seconds=1.0, precision=0.01).ratio

    costs = prices(cut, shares_of_time(cut, known_task(TASK).frame, measure))
    runs = {"plain": plain(cut, config)}
    runs |= {kind: searching(kind, cut, config, costs) for kind in ("sdo", "do")}
    times: dict[str, list[float]] = {name: [0.0] * args.blocks for name in runs}
    for number in range(BLOCK * args.blocks):
        for name, step in runs.items():  # step by step, so that all see the same machine
            began = time.perf_counter()
            step(number)
            times[name][number // BLOCK] += time.perf_counter() - began
    found: dict[str, Any] = {
        "cpu": cpu(),
        "width": args.width,
        "dropout": args.dropout,
        "batch_tokens": config.batch_tokens,
        "steps": BLOCK * args.blocks,
        "plain_ms": 1e3 * sorted(times["plain"])[args.blocks // 2] / BLOCK,
        "paper": 1.4,
    }
    for kind in ("sdo", "do"):
        pairs = zip(times[kind][1:], times["plain"][1:], strict=True)  # the first block warms up
        ratio = ratio_of([float(torch.tensor(a / b).log()) for a, b in pairs])
        found[kind] = {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        print(f"{kind}: {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})", flush=True)
    Parts(args.out).replace(found)


if __name__ == "__main__":
    main()
