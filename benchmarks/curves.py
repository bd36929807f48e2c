"""Learning curves of models of the open space: what short trials say about long training.

    python benchmarks/curves.py record [--steps 1200] [--seeds 2] [--models 24] [--shard 0/2]
    python benchmarks/curves.py order

``record`` draws 16 members of the open space at random and takes 8 others (hand-designed ones and
what searches found), and trains each on the standard library: a constant rate, looked at 20 times,
with a branch of a falling rate at stages as a search has them; the last 30 % of the steps fall to
zero and give the end. Every model is written as soon as it is done, so the command goes on where it
was stopped; shards can run side by side. Results: benchmarks/results/curves.json, a table on which
strategies can be compared in seconds (benchmarks/ladder.py).

``order`` says how well short trials rank the ends: the value on the constant rate, the same after a
cool-down, and curves that are continued to the end, each for its price.
"""

import json
import math
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import torch
from harness import Parts, arguments

from formwright.arch import arch_id, notation, parse
from formwright.arch.counting import count
from formwright.cost import Target
from formwright.cost.meter import Meter
from formwright.model import build
from formwright.space import Space, space_for
from formwright.statistics import spearman
from formwright.strategy.forecast import CAPACITY, forecast
from formwright.tasks import load_task
from formwright.train import TrainConfig, rate_for
from formwright.train.distributed import World
from formwright.train.engine import Engine
from formwright.trial import Objective, Trial

RESULTS = Parts("curves")
WIDTH, LOOKS, COOLED, FALLING = 128, 20, 0.2, 0.3
STAGES = (60, 120, 180, 360)
CONFIG = TrainConfig(batch_tokens=1024, lr=2e-3, warmup=20, schedule="constant", score_batches=32)
RANDOM = 16
ABOUT = {"task": "stdlib", "steps": 1200, "stages": STAGES, "cooled": COOLED, "models": []}
BY_HAND = ("csfcsf in llama(128)", "(sf)x4 in llama(128)", "(sf)x4 in gpt2(128)")


def main() -> None:
    """Record curves, or say how well short trials rank their ends."""
    parser = arguments(__doc__, seeds=2)
    parser.add_argument("what", choices=("record", "order"))
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--models", type=int, default=24)
    parser.add_argument("--shard", default="0/1")
    asked = parser.parse_args()
    if asked.what == "record":
        record(asked.steps, asked.seeds, asked.models, *map(int, asked.shard.split("/")))
    else:
        print(json.dumps(ordered(RESULTS.read()), indent=1))


# --- recording --------------------------------------------------------------------------


def record(steps: int, seeds: int, models: int, shard: int, shards: int) -> None:
    """Train what is not in the table yet."""
    with RESULTS.changing() as data:
        data.update({**ABOUT, **data})
    task = load_task("stdlib")
    space = space_for("open", frame=task.frame, family=task.style(WIDTH), width=WIDTH)
    chosen = members(space, task)[:models]
    meter = Meter(Target(length=task.frame.length))
    work = [(seed, row) for seed in range(seeds) for row in chosen]
    for number, (seed, row) in enumerate(work):
        if number % shards != shard or known(row["id"], seed):
            continue
        arch = row.pop("arch_")
        began = time.time()
        found = curve(arch, task, steps, seed)
        row["arch_"] = arch
        about = {k: v for k, v in row.items() if k != "arch_"}
        if not any(m["id"] == row["id"] for m in RESULTS.read()["models"]):
            latency = meter.measure(arch, seconds=1.0, precision=0.02)
            about |= {"latency": round(latency.ms, 4), "params": count(arch).params}
        keep(about, found)
        end = found["final"]
        print(f"{row['origin']:>8} seed {seed} {end} {time.time() - began:.0f} s", flush=True)


def members(space: Space, task: Any) -> list[dict[str, Any]]:
    """Random members first, then hand-designed ones and near relatives of them."""
    rng, rows = Random(13), []
    for _ in range(RANDOM):
        decisions = space.sample(rng)
        rows.append(described(space.resolve(decisions), "random", decisions))
    for text in BY_HAND:
        arch = parse(text).bind(task.frame).check()
        decisions = space.decisions_of(arch)  # type: ignore[attr-defined]
        rows.append(described(arch, text, decisions))
        if decisions:
            child = space.mutate(decisions, rng)
            rows.append(described(space.resolve(child), f"near {text}", child))
    cheap = sorted((space.sample(rng) for _ in range(60)), key=lambda d: flops(space, d))
    for decisions in cheap[3:7]:
        rows.append(described(space.resolve(decisions), "cheap", decisions))
    return rows


def flops(space: Space, decisions: Any) -> int:
    """What a member computes."""
    return count(space.resolve(decisions)).flops


def described(arch: Any, origin: str, decisions: Any) -> dict[str, Any]:
    """A model of the table, before it is trained."""
    return {
        "id": arch_id(arch), "origin": origin, "notation": notation(arch),
        "decisions": decisions, "arch_": arch,
    }  # fmt: skip


def curve(arch: Any, task: Any, steps: int, seed: int) -> dict[str, Any]:
    """One training: looks on the constant part, branches at stages, the end."""
    config = CONFIG.replace(steps=steps, seed=seed, lr=rate_for(arch, CONFIG.lr))
    engine = Engine(build(arch, seed=seed), task, config, torch.device("cpu"), World())
    usual, falling = engine.rate, int(steps * (1 - FALLING))
    looks = sorted({max(1, round(falling * k / LOOKS)) for k in range(1, LOOKS + 1)})
    seen: dict[str, Any] = {"seed": seed, "steps": [], "bits_per_byte": [], "cooled": {}}
    losses: list[float] = []
    cpu = 0.0
    try:
        for step in range(1, falling + 1):
            began = time.process_time()
            losses.append(float(engine.step()[0]))
            cpu += time.process_time() - began
            if step in looks:
                seen["steps"].append(step)
                seen["bits_per_byte"].append(score(engine))
            if step in STAGES:
                seen["cooled"][str(step)] = branched(engine, usual, math.ceil(COOLED * step))
        seen["final"] = cooled(engine, usual, steps - falling)
    except FloatingPointError as error:
        seen["final"], seen["reason"] = None, str(error)
    finally:
        engine.close()
    seen["step_seconds"] = round(cpu / max(1, len(losses)), 5)
    seen["losses"] = [round(sum(losses[i : i + 20]) / 20, 4) for i in range(0, len(losses), 20)]
    return seen


def branched(engine: Engine, usual: Callable[[], float], steps: int) -> float:
    """The score after a cool-down, from where the engine stands; it then stands there again."""
    saved = engine.checkpoint({})
    found = cooled(engine, usual, steps)
    engine.restore(saved)
    return found


def cooled(engine: Engine, usual: Callable[[], float], steps: int) -> float:
    """The score after so many steps with a rate that falls to zero."""
    first = engine.number
    peak = usual()
    engine.rate = lambda: peak * (1 - math.sqrt((engine.number - first) / steps))  # type: ignore[method-assign]
    try:
        for _ in range(steps):
            engine.step()
    finally:
        engine.rate = usual  # type: ignore[method-assign]
    return score(engine)


def score(engine: Engine) -> float:
    """Bits per byte on the validation text."""
    found = engine.task.score(engine.model, "valid", batch_tokens=1024, limit=32)
    value = found["bits_per_byte"]
    if not math.isfinite(value):
        raise FloatingPointError(f"no number after {engine.number} steps")
    return round(float(value), 4)


# --- the table --------------------------------------------------------------------------


def known(name: str, seed: int) -> bool:
    """Whether a model was trained with a seed."""
    rows = [model for model in RESULTS.read()["models"] if model["id"] == name]
    return any(curve["seed"] == seed for model in rows for curve in model["curves"])


def keep(about: dict[str, Any], found: dict[str, Any]) -> None:
    """Add a curve; other processes may do the same."""
    with RESULTS.changing() as data:
        rows = [model for model in data["models"] if model["id"] == about["id"]]
        if not rows:
            rows = [{**about, "curves": []}]
            data["models"].append(rows[0])
        rows[0]["curves"].append(found)


# --- order ------------------------------------------------------------------------------


def ordered(data: dict[str, Any]) -> dict[str, Any]:
    """Rank correlation of what short trials say with the ends, for the price of each."""
    models = [m for m in data["models"] if all(c["final"] is not None for c in m["curves"])]
    ends = [mean(c["final"] for c in m["curves"]) for m in models]
    first = [m["curves"][0] for m in models]
    found: dict[str, Any] = {"models": len(models)}
    for stage in STAGES:
        plain = [at(c, stage) for c in first]
        cooled_ = [c["cooled"][str(stage)] for c in first]
        found[f"{stage} steps"] = round(spearman(plain, ends), 3)
        found[f"{stage} steps, cooled"] = round(spearman(cooled_, ends), 3)
        seen = [foreseen(m, stage, data["steps"]) for m in models]
        found[f"{stage} steps, forecast"] = round(spearman(seen, ends), 3)
    pairs = [[c["final"] for c in m["curves"]][:2] for m in models if len(m["curves"]) > 1]
    if len(pairs) > 3:
        found["the end with another seed"] = round(spearman(*zip(*pairs, strict=True)), 3)
    return found


def foreseen(model: dict[str, Any], stage: int, steps: int) -> float:
    """What a search expects at the end of a model that it has seen at a stage."""
    curve = model["curves"][0]
    losses, last = curve["losses"], stage // 20
    values = {
        "bits_per_byte": curve["cooled"][str(stage)],
        "loss": curve["cooled"][str(stage)] * math.log(2),
        "slope": losses[max(0, last // 2 - 1)] - losses[last - 1],
        "decoder_params": float(count(parse(model["notation"])).non_embedding),
    }
    trial = Trial(0, {}, state="done", steps=stage, values=values)
    return forecast(trial, Objective("bits_per_byte"), steps, CAPACITY)


def at(curve: dict[str, Any], step: int) -> float:
    """The value on the constant rate at a step, between looks in a straight line."""
    steps, values = curve["steps"], curve["bits_per_byte"]
    for (a, u), (b, v) in zip(
        zip(steps, values, strict=True), zip(steps[1:], values[1:], strict=True), strict=False
    ):
        if a <= step <= b:
            return float(u + (v - u) * (step - a) / (b - a))
    return float(values[0] if step < steps[0] else values[-1])


def mean(values: Any) -> float:
    """Of numbers."""
    listed: Sequence[float] = list(values)
    return sum(listed) / len(listed)


if __name__ == "__main__":
    main()
