"""whittle: members of one supernet after the same processor seconds, on the same bytes.

The decoder is the same on both sides, to the parameter (its output layer not tied, as LitGPT's):
width 64 to 128, inner size 2 to 4 times that, 2 to 4 layers, heads of 16 channels. whittle trains
by its ``SandwichStrategy``, four members for each update; ours lets the members take turns. whittle
first tries three learning rates of AdamW and of Muon, with another seed and a third of the time,
and goes on with the best of each. Ours has what ``benchmarks/sandwich.py`` has (Muon, 4e-3), and
AdamW at the best of the same rates, so that the optimiser can be told from the method.
"""

import argparse
import math
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import sandwich
from harness import unpacked
from rival import Rival

from formwright.arch.counting import count
from formwright.tasks import Task, load_task

RATES = {"adamw": (1e-3, 3e-3, 6e-3), "muon": (1e-3, 2e-3, 4e-3)}
TUNING_SEED = 100


def measured(
    rival: Rival, asked: argparse.Namespace, known: dict[str, Any], keep: Callable[..., None]
) -> None:
    """Rates first, then all seeds in turns; what is known is not measured again."""
    with tempfile.TemporaryDirectory() as place:
        text = unpacked(asked.data, Path(place), "train.txt", "valid.txt")
        versions, _ = rival.ask("begin", data=str(text))
        keep(versions=versions, seconds=asked.seconds)
        task = load_task(f"lm:{text}?length=64")
        train = {"whittle": partial(_theirs, rival), "ours": partial(_ours, task)}
        tried = dict(known.get("tried", {}))
        for name, kind in (("whittle", "adamw"), ("whittle", "muon"), ("ours", "adamw")):
            rows = tried.setdefault(f"{name} {kind}", {})
            for rate in RATES[kind][: 2 if asked.short else None]:
                if f"{rate:g}" not in rows:
                    found = train[name](kind, rate, TUNING_SEED, asked.seconds / 3)
                    rows[f"{rate:g}"] = fmean(found["nats"].values())
                    keep(tried=tried)
        best = {name: float(min(rows, key=lambda r: rows[r])) for name, rows in tried.items()}
        best["ours muon"] = sandwich.CONFIG.lr
        keep(rates=best)
        done = list(known.get("rows", []))
        for seed in range(asked.seeds):
            for way, rate in best.items():
                if any(row["way"] == way and row["seed"] == seed for row in done):
                    continue
                name, kind = way.split()
                found = train[name](kind, rate, seed, asked.seconds)
                done.append({"way": way, "seed": seed, **found})
                keep(rows=done)


def _theirs(rival: Rival, kind: str, rate: float, seed: int, seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = rival.ask(
        "train", kind=kind, rate=rate, seed=seed, seconds=seconds, members=sandwich.MEMBERS
    )[0]
    return found


def _ours(task: Task, kind: str, rate: float, seed: int, seconds: float) -> dict[str, Any]:
    config = sandwich.CONFIG.replace(optimiser=kind, lr=rate)
    supernet, steps, spent = sandwich.sandwiched(
        task, seconds, seed, turns=True, within=untied(task), config=config
    )
    members = {name: supernet.extract(given) for name, given in sandwich.MEMBERS.items()}
    return {
        "steps": steps,
        "seconds": spent,
        "nats": {n: sandwich.score(task, m) * math.log(2) for n, m in members.items()},
        "params": count(members["largest"].arch).params,
    }


def untied(task: Task) -> Any:
    """The space of ``sandwich.py``, its output layer with weights of its own."""
    space = sandwich.space(task)
    declared = space.declared
    backbone = declared.backbone
    backbone = backbone.replace(embedding=backbone.embedding.replace(tied=False))
    return type(space)(declared.replace(backbone=backbone), name="sandwich")
