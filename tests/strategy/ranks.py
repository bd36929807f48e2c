"""Trainings that go on with other numbers of processes than they were begun with.

python -m tests.strategy.ranks FOLDER PART, in one process or in several that were launched together
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tests.strategy.test_sandwich import toy
from tests.strategy.together import CASES, Halved, begun
from tests.train.toy import ToyTask, architecture

from formwright.distil.relations import RelationLoss
from formwright.model import build
from formwright.strategy.gradient import SandwichPolicy, SearchConfig, search_supernet
from formwright.supernet import Supernet
from formwright.train import TrainConfig, train
from formwright.train.distributed import leave_world

STEPS = 9
SEARCHES = (*CASES, "autodistil")  # SDO is ``coins``; the sandwich rule comes twice
SHARDED = ("sharded", "soft", "numbers", "member")
NAMES = ("plain", "sharded", "dropped", *SEARCHES)
PARTS = {"whole": None, "begun": 3, "alone": 6, "ended": None}  # after how many steps to stop


def config(name: str, **more: Any) -> TrainConfig:
    basics: dict[str, Any] = {"steps": STEPS, "batch_tokens": 48, "warmup": 2, "log_every": 1}
    basics |= {
        "checkpoint_every": 3,
        "score_batches": 0,
        "accumulate": 2,
        "dropout": 0.2 * (name == "dropped"),
    }
    if name in CASES:
        basics |= {"accumulate": 1, **CASES[name][2]}
    basics["shard"] = name in SHARDED
    return TrainConfig(**basics | more)


def learned(name: str, task: ToyTask, out: Path, stop: int | None = None) -> dict[str, Any]:
    """All that a run has learnt, by name, at its end or where it is told to stop."""
    if name not in SEARCHES:
        numbers = config(name)
        arch = architecture().fitted(task.frame).check()
        dropouts = {"dropout": numbers.dropout}
        model = build(arch, seed=0, **dropouts).double()
        taken, last = iter(range(1, STEPS + 1)), _after(out, stop)
        train(model, task, numbers, out=out, stop=lambda: next(taken) == last)
        return model.state_dict()
    more: dict[str, Any] = {}
    if name == "autodistil":
        torch.manual_seed(0)
        supernet = Supernet(toy()).double()
        policy: Any = SandwichPolicy(supernet, between=1)
        how = SearchConfig(every=0)
        largest = supernet.space.resolve(policy.end(largest=True))
        teacher = build(largest, seed=5).double()
        for p in teacher.parameters():  # large enough for relations that are worth learning
            torch.nn.init.normal_(p, std=0.5)
        more["loss"] = RelationLoss(teacher)
    else:
        (supernet, policy), how = begun(name), CASES[name][1]
    asked = None if stop is None else (lambda search: search.number == stop)
    search_supernet(supernet, policy, task, config(name), how, out=out, stop=asked, **more)
    return {**supernet.state_dict(), **policy.state_dict(prefix="policy.")}


def _after(out: Path, stop: int | None) -> int | None:
    """Steps of this session after which to stop."""
    if stop is None:
        return None
    done = [int(path.name.split("-")[1]) for path in out.glob("checkpoint-*")]
    return stop - max([step for step in done if step < stop], default=0)


def losses(out: Path) -> list[dict[str, float]]:
    """What was logged of each step; times vary."""
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    kept = ("step", "loss", "choice_loss", "gradient")
    return [
        {k: v for k, v in line.items() if k in kept} for line in lines if line["kind"] == "step"
    ]


def main(folder: Path, part: str) -> None:
    torch.set_num_threads(1)
    for name in NAMES:
        out = folder / ("whole" if part == "whole" else "changed") / name
        found = learned(name, Halved(), out, PARTS[part])
        if torch.distributed.is_initialized():
            rank = torch.distributed.get_rank()
            save_file(found, folder / f"{part}-{name}-{rank}.safetensors")


if __name__ == "__main__":
    for each in sys.argv[2:]:
        main(Path(sys.argv[1]), each)
    leave_world()
