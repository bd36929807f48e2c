"""Should Muon be the default? Against AdamW, at equal steps and at equal seconds of one processor.

    python benchmarks/muon.py [--steps 300] [--seeds 2]

Two Llama-style models learn the text of Python's standard library in batches of 1,024 bytes; the
rate stays and then falls to zero. Each optimiser has three rates to choose from, by its first seed.
What a step costs is measured in turns, in seconds of a processor, so that a busy machine slows both
alike; "equal seconds" gives Muon fewer steps by that ratio. One thread; about 20 minutes of one
core. Results go to benchmarks/results/muon.json. What they do not show: longer trainings, other
tasks, and higher rates, although the highest of the three was Muon's best.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import torch

from formwright.model import build
from formwright.tasks import load_task
from formwright.tasks.base import Task
from formwright.train import TrainConfig, train
from formwright.train.distributed import World
from formwright.train.engine import Engine

RESULTS = Path(__file__).parent / "results" / "muon.json"
MODELS = ("(sf)x4 in llama(128)", "csfcsf in llama(128)")
RATES = (1e-3, 2e-3, 4e-3)
TIMED = 30  # steps, in turns
CONFIG = TrainConfig(
    batch_tokens=1024,
    warmup=20,
    schedule="wsd",
    score_batches=64,
    checkpoint_every=10**6,
    log_every=100,
)


def step_ratio(task: Task, text: str) -> float:
    """How much longer a step of Muon takes than one of AdamW: the median over turns."""
    arch = task.architecture(text, 128)
    engines = [
        Engine(build(arch), task, CONFIG.replace(optimiser=name), torch.device("cpu"), World())
        for name in ("muon", "adamw")
    ]
    ratios = []
    for turn in range(TIMED + 3):
        taken = []
        for engine in engines:
            began = time.process_time()
            engine.step()
            taken.append(time.process_time() - began)
        if turn >= 3:  # the first ones allocate
            ratios.append(taken[0] / taken[1])
    for engine in engines:
        engine.close()
    return statistics.median(ratios)


def bits(task: Task, text: str, config: TrainConfig) -> float:
    """Bits per byte after one training; infinite where it diverged."""
    _, result = train(task.architecture(text, 128), task, config)
    found = float("inf") if result.value is None else result.value
    said = f"{text} {config.optimiser} rate {config.lr:g} steps {config.steps} seed {config.seed}"
    print(f"{said}: {found:.4f}", flush=True)
    return found


def judged(task: Task, text: str, config: TrainConfig, seeds: int) -> dict[str, Any]:
    """The best of the rates by the first seed, and what the other seeds have with it."""
    by_rate = {lr: bits(task, text, config.replace(lr=lr)) for lr in RATES}
    best = min(by_rate, key=lambda lr: by_rate[lr])
    more = [bits(task, text, config.replace(lr=best, seed=seed)) for seed in range(1, seeds)]
    values = [by_rate[best], *more]
    return {
        "steps": config.steps,
        "rates": {str(lr): value for lr, value in by_rate.items()},
        "best_rate": best,
        "values": values,
        "mean": statistics.fmean(values),
    }


def compared(task: Task, text: str, steps: int, seeds: int) -> dict[str, Any]:
    """AdamW, and Muon with as many steps and with as many seconds."""
    ratio = step_ratio(task, text)
    print(f"{text}: a step of Muon takes {ratio:.3f} of one of AdamW", flush=True)
    adamw = judged(task, text, CONFIG.replace(steps=steps), seeds)
    muon = CONFIG.replace(optimiser="muon", steps=steps)
    equal_steps = judged(task, text, muon, seeds)
    rate = equal_steps["best_rate"]
    shorter = muon.replace(steps=round(steps / ratio), lr=rate)
    values = [bits(task, text, shorter.replace(seed=seed)) for seed in range(seeds)]
    return {
        "step_ratio": ratio,
        "adamw": adamw,
        "muon": equal_steps,
        "muon_equal_seconds": {
            "steps": shorter.steps,
            "values": values,
            "mean": statistics.fmean(values),
        },
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    task = load_task("stdlib")
    results = {}
    for text in MODELS:
        results[text] = found = compared(task, text, args.steps, args.seeds)
        for name in ("adamw", "muon", "muon_equal_seconds"):
            print(f"{text} {name}: {found[name]['mean']:.4f} bits per byte", flush=True)
        RESULTS.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
