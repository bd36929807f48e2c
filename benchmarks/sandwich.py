"""One supernet for many sizes by the sandwich rule, beside a plain model of each size.

    python benchmarks/sandwich.py --data FOLDER [--seeds 3] [--seconds 64] [--together] [--alone]

FOLDER holds a text as train.txt and valid.txt, or the same with .xz. A decoder whose width, depth,
heads and inner size are open is trained by the sandwich rule for some seconds of processor time:
the largest member, the smallest and two random ones take turns, one at each update; with
``--together`` all four share every update, as published, which gets a third of the updates. Then
members of three sizes are taken out and scored on the validation text, beside a plain model of the
same architecture that was trained for the same processor time, and for a third of it, as three
plain models together would have. Steps follow from a measured time per step, so that a busy machine
changes nothing. Extraction is checked in float64. Results: benchmarks/results/sandwich.json; bits
per byte, and nats beside them.
"""

import argparse
import json
import math
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from harness import Parts, arguments, unpacked

from formwright.arch import Architecture, Attention, Decoder, FeedForward, Residual, Rotary
from formwright.arch.counting import count
from formwright.model import build
from formwright.space import Derived, OneOf, Repeat, TreeSpace
from formwright.space.choice import stack_of
from formwright.strategy.gradient import SandwichPolicy, SearchConfig, search_supernet
from formwright.supernet import Supernet
from formwright.tasks import Task, load_task
from formwright.train import TrainConfig, train

RESULTS = Parts("sandwich")
MEMBERS = {
    "smallest": {"width": 64, "ratio": 2, "depth": 2},
    "middle": {"width": 96, "ratio": 3, "depth": 3},
    "largest": {"width": 128, "ratio": 4, "depth": 4},
}
CONFIG = TrainConfig(
    batch_tokens=1024, optimiser="muon", lr=4e-3, warmup=40, log_every=50, checkpoint_every=10**6
)
TRIED = 24  # steps by which the time of one is measured


def main() -> None:
    """Train, take out, compare."""
    parser = arguments(__doc__, data=True, seeds=3)
    parser.add_argument("--seconds", type=float, default=64.0)
    parser.add_argument("--together", action="store_true", help="members share every update")
    parser.add_argument("--alone", action="store_true", help="train no plain models beside it")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        text = unpacked(asked.data, Path(place), "train.txt", "valid.txt")
        task = load_task(f"lm:{text}?length=64")
        rows = [compared(task, asked, seed) for seed in range(asked.seeds)]
    found = {
        "seconds": asked.seconds,
        "together": asked.together,
        "seeds": rows,
        "means": means(rows),
    }
    RESULTS.replace(found)
    for name, row in found["means"].items():
        print(name, json.dumps(row))


def space(task: Task) -> TreeSpace:
    """Width, heads of 16 channels, inner size by a ratio, depth: all open."""
    ratio = OneOf("ratio", (2, 3, 4))
    attention = Attention(2).replace(heads=Derived("width", 1 / 16))
    inner = FeedForward(2, "gelu").replace(inner=Derived("width", ratio))
    unit = tuple(Residual(Attention(2)).replace(inner=part) for part in (attention, inner))
    layers = stack_of(Repeat("depth", unit, 2, 4, shared=("width", "ratio")))
    backbone = Decoder(2, position=Rotary()).replace(width=OneOf("width", (64, 96, 128)))
    return TreeSpace(Architecture(layers, backbone, frame=task.frame), name="sandwich")


def compared(task: Task, asked: argparse.Namespace, seed: int) -> dict[str, Any]:
    """One seed: the supernet's members and plain models of the same shapes."""
    seconds = asked.seconds
    supernet, steps, spent = sandwiched(task, seconds, seed, turns=not asked.together)
    row: dict[str, Any] = {"seed": seed, "supernet_steps": steps, "supernet_seconds": spent}
    for name, decisions in MEMBERS.items():
        member = supernet.extract(decisions)
        found = {"params": count(member.arch).params, "extraction": extraction(supernet, decisions)}
        found["supernet"] = score(task, member)
        found["supernet_nats"] = found["supernet"] * math.log(2)
        for words, share in () if asked.alone else (("plain", 1.0), ("plain_third", 1 / 3)):
            model, taken = plain(task, member.arch, seconds * share, seed)
            found[words] = score(task, model)
            found[f"{words}_steps"] = taken
        row[name] = found
        print(seed, name, json.dumps(found), flush=True)
    return row


def sandwiched(
    task: Task,
    seconds: float,
    seed: int,
    *,
    turns: bool,
    within: TreeSpace | None = None,
    config: TrainConfig = CONFIG,
) -> tuple[Supernet, int, float]:
    """A supernet after so many seconds of processor time."""
    members = within or space(task)

    def run(steps: int) -> tuple[Supernet, float]:
        supernet = Supernet(members, seed=seed)
        policy = SandwichPolicy(supernet, between=2, turns=turns)
        numbers = config.replace(steps=steps, seed=seed)
        begin = time.process_time()
        search_supernet(supernet, policy, task, numbers, SearchConfig(every=0))
        return supernet, time.process_time() - begin

    run(TRIED)  # the narrow models are made at first
    steps = max(50, int(seconds * TRIED / run(TRIED)[1]))
    supernet, spent = run(steps)
    return supernet, steps, spent


def plain(task: Task, arch: Architecture, seconds: float, seed: int) -> tuple[Any, int]:
    """A plain model after so many seconds of processor time."""

    def run(steps: int) -> tuple[Any, float]:
        begin = time.process_time()
        config = CONFIG.replace(steps=steps, seed=seed, score_batches=1)
        model, _ = train(build(arch, seed=seed), task, config)
        return model, time.process_time() - begin

    run(TRIED)
    steps = max(50, int(seconds * TRIED / run(TRIED)[1]))
    return run(steps)[0], steps


def score(task: Task, model: Any) -> float:
    """Bits per byte of the validation text."""
    return float(task.score(model, batch_tokens=4096)["bits_per_byte"])


def extraction(supernet: Supernet, decisions: dict[str, int]) -> float:
    """The largest difference between a member inside and outside, in float64."""
    supernet.double()
    tokens = torch.randint(256, (2, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), supernet.gated(decisions):
        difference = (supernet(tokens) - supernet.extract(decisions)(tokens)).abs().max()
    supernet.float()
    return float(difference)


def means(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over seeds."""
    found: dict[str, dict[str, float]] = {}
    for name in MEMBERS:
        found[name] = {}
        for key in ("supernet", "supernet_nats", "plain", "plain_third"):
            values = [row[name][key] for row in rows if key in row[name]]
            if not values:
                continue
            found[name][key] = statistics.fmean(values)
            found[name][f"{key}_sd"] = statistics.stdev(values) if len(values) > 1 else 0.0
    return found


if __name__ == "__main__":
    main()
