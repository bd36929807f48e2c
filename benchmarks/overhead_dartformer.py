"""What a supernet of nine mechanisms costs over its nine parts.

    python benchmarks/overhead_dartformer.py [--rounds 200] [--out FILE]

A training step (forward, backward, clipping, AdamW) of DARTFormer's one-layer supernet, against the
steps of the nine one-layer models with one mechanism each, in alternation in one process and one
thread; seconds are those of the processor. What the nine models have in common (embedding,
feed-forward, norms, head, and their share of the optimiser) the supernet has once: it is timed as
a model without attention and counted once.
The ratio is the median over rounds, with a bootstrapped interval of 95 %.
"""

import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from harness import Parts, arguments, results
from torch import nn

from formwright.arch import Architecture, Encoder, Stack
from formwright.arch.mechanism import (
    BigBird,
    LinearTransformer,
    Linformer,
    Local,
    Longformer,
    Mechanism,
    Performer,
    Reformer,
    Sparse,
    Synthesizer,
)
from formwright.model import Model, build
from formwright.space.dartformer import TINY, Encoders, all_heads
from formwright.strategy.gradient import SearchConfig, SupernetSearch, UniformPolicy
from formwright.supernet import Supernet
from formwright.tasks import load_task
from formwright.tasks.base import Batch, Task
from formwright.train import TrainConfig
from formwright.train.optim import make_optimiser
from formwright.train.schedule import rate
from formwright.zoo.dartformer import NORM

BATCHES = 4  # read in turn; their lengths differ
# Ranges for texts of a few hundred tokens, between the tiny ones and those of the paper.
MIDDLE: dict[str, Mechanism] = {
    "bigbird": BigBird(block=16, random_blocks=2),
    "linear": LinearTransformer(lra=True),
    "linformer": Linformer(slots=16, lra=True),
    "local": Local(block=32, lra=True),
    "longformer": Longformer(window=64, lra=True),
    "performer": Performer(lra=True),
    "reformer": Reformer(chunks=8, buckets=8, lra=True),
    "sparse": Sparse(block=32, summary=4, lra=True),
    "synthesizer": Synthesizer(rank=16, lra=True),
}


@dataclass(frozen=True)
class Size:
    """One setting to be measured."""

    name: str
    task: str
    kinds: dict[str, Mechanism]
    width: int
    heads: int
    batch_tokens: int


SIZES = (
    Size("tiny", "listops-tiny?pool=cls", TINY, 32, 2, 512),
    Size(
        "middle",
        "listops?pool=cls&min_length=100&max_length=256&train=400&valid=20&test=20",
        MIDDLE,
        64,
        4,
        2048,
    ),
)


def steppers(size: Size) -> dict[str, Callable[[], None]]:
    """The supernet, its nine parts, and what they share."""
    task = load_task(size.task)
    encoders = Encoders(
        backbone=Encoder(size.width, norm=NORM, init="lra"),
        frame=task.frame,
        blocks=all_heads(size.kinds, size.heads),
        inner=4 * size.width,
        layers=1,
    )
    config = TrainConfig(steps=10**6, batch_tokens=size.batch_tokens)
    plan = task.sampler(batch_tokens=size.batch_tokens, seed=0)
    batches = [plan.batch(step) for step in range(BATCHES)]
    supernet = Supernet(encoders.block_space())
    search = SupernetSearch(supernet, UniformPolicy(supernet), task, config, SearchConfig(every=0))

    def whole() -> None:
        search.step(batches[search.number % BATCHES], None)

    found: dict[str, Callable[[], None]] = {"supernet": whole}
    space = encoders.layer_wise()
    members = {k: space.resolve(encoders.homogeneous(k, mixed=False)) for k in encoders.kinds}
    full = encoders.full()
    members["shared"] = Architecture(Stack(full.layers.layers[1:]), full.backbone, frame=full.frame)
    for name, arch in members.items():
        found[name] = plain(build(arch), task, config, batches)
    return found


def plain(
    model: Model, task: Task, config: TrainConfig, batches: Sequence[Batch]
) -> Callable[[], None]:
    """The same step for a plain model."""
    optimiser, turn = make_optimiser(model, config), 0

    def step() -> None:
        nonlocal turn
        torch.manual_seed(turn)
        model.train()
        loss = task.loss(model, batches[turn % BATCHES])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip)
        for group in optimiser.param_groups:
            group["lr"] = rate(config, turn, turn / 10**6)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        float(loss.detach())
        turn += 1

    return step


def measured(size: Size, rounds: int) -> dict[str, Any]:
    """In each round everyone takes one step on the same batch, in a new order."""
    parts = steppers(size)
    order, rng = list(parts), random.Random(0)
    for name in order * BATCHES:
        parts[name]()
    times: dict[str, list[float]] = {name: [] for name in order}
    for _ in range(rounds):
        rng.shuffle(order)
        for name in order:
            began = time.process_time()  # other programs on the machine do not count
            parts[name]()
            times[name].append(time.process_time() - began)
    kinds = [name for name in parts if name not in ("supernet", "shared")]
    ratios = []
    for turn in range(rounds):
        sum_of_nine = sum(times[name][turn] for name in kinds)
        once = sum_of_nine - (len(kinds) - 1) * times["shared"][turn]
        ratios.append(times["supernet"][turn] / once)
    low, high = interval(ratios)
    milliseconds = {name: round(1e3 * statistics.median(row), 3) for name, row in times.items()}
    naive = milliseconds["supernet"] / sum(milliseconds[name] for name in kinds)
    return {
        "ratio": round(statistics.median(ratios), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "rounds": rounds,
        "against_nine_whole_models": round(naive, 4),
        "milliseconds": milliseconds,
        "width": size.width,
        "heads": size.heads,
        "batch_tokens": size.batch_tokens,
        "task": size.task,
    }


def interval(values: Sequence[float], draws: int = 2000) -> tuple[float, float]:
    """95 % of the medians of bootstrapped samples."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws) - 1]


def main() -> None:
    """Every size."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--out", type=Path, default=results("overhead-dartformer"))
    asked = parser.parse_args()
    found = {}
    for size in SIZES:
        found[size.name] = measured(size, asked.rounds)
        print(size.name, json.dumps(found[size.name], indent=1), flush=True)
    Parts(asked.out).replace(found)


if __name__ == "__main__":
    main()
