"""What a step of the PAR search costs over a training step of the plain model it begins from.

    python benchmarks/overhead_par.py [--seconds 60] [--width 128]

The supernet holds an attention and a feed-forward for every slot, twice the weights of the plain
order. Four out of five batches teach the weights, one the architecture; a turn is five steps. Turns
of the plain model, of the soft search (every option is computed) and of the sampled one
(straight-through: weights are taught through the drawn options alone) take their turns in one run,
so that what disturbs the machine disturbs all. Ratios are medians over turns, with the 95 %
interval of the median. One thread. Results go to benchmarks/results/overhead-par.json.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from harness import Parts, arguments

from formwright.arch import parse
from formwright.arch.style import style
from formwright.model import build
from formwright.recipes import par
from formwright.space.order import order_space
from formwright.strategy.gradient import GumbelPolicy, SearchConfig, SupernetSearch, Temperature
from formwright.supernet import Supernet
from formwright.tasks import load_task
from formwright.train import TrainConfig
from formwright.train.distributed import join_world
from formwright.train.engine import Engine

RESULTS = Parts("overhead-par")
TURN = 5  # steps; the last one teaches the architecture
LIMITS = {"soft": 1.9, "sampled": 1.2}


def steppers(width: int, slots: int, length: int) -> dict[str, Callable[[int], None]]:
    """By name, what takes one step."""
    task = load_task(f"stdlib?length={length}")
    family = style("transformer_xl", width)
    config = TrainConfig(steps=10**6, batch_tokens=8 * length, lr=1e-4, warmup=1, memory=length)
    plan = task.sampler(batch_tokens=config.batch_tokens, seed=0, memory=length)
    arch = parse(par.plain_order(slots), defaults=family).bind(task.frame)
    engine = Engine(build(arch), task, config, torch.device("cpu"), join_world(torch.device("cpu")))

    def plain(step: int) -> None:
        engine.step()

    found: dict[str, Callable[[int], None]] = {"plain": plain}
    space = order_space(family, task.frame, slots=slots, letters=par.LETTERS)
    choices = SearchConfig(warmup=0, every=TURN, lr=1e-3)
    for name in ("soft", "sampled"):
        supernet = Supernet(space)
        policy = GumbelPolicy(supernet, temperature=Temperature(5.0, 1.0), hard=name == "sampled")
        search = SupernetSearch(supernet, policy, task, config, choices)

        def step_of(step: int, search: SupernetSearch = search) -> None:
            weights, chooses = choices.teaches(step)
            batch = plan.batch(step)
            search.step(batch if weights else None, batch if chooses else None)

        found[name] = step_of
    return found


def ratios(width: int, slots: int, length: int, seconds: float) -> dict[str, Any]:
    """Interleaved turns, and their ratios to the plain model's."""
    makers = steppers(width, slots, length)
    times: dict[str, list[float]] = {name: [] for name in makers}
    number, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end or number < 4:
        names = list(makers)
        for name in names[number % 3 :] + names[: number % 3]:
            began = time.process_time()
            for step in range(number * TURN, (number + 1) * TURN):
                makers[name](step)
            if number:  # the first turn warms up
                times[name].append(time.process_time() - began)
        number += 1
    found: dict[str, Any] = {"turns": number - 1, "width": width, "slots": slots, "length": length}
    found["plain_ms"] = 1e3 * statistics.median(times["plain"]) / TURN
    for name in LIMITS:
        each = sorted(a / b for a, b in zip(times[name], times["plain"], strict=True))
        reach = round(0.98 * len(each) ** 0.5)  # of the median's interval, in ranks
        middle = len(each) // 2
        low, high = max(0, middle - reach), min(len(each) - 1, middle + reach)
        found[name] = {"ratio": statistics.median(each), "low": each[low], "high": each[high]}
    return found


def main() -> None:
    """Measure and keep."""
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    args = parser.parse_args()
    found = ratios(args.width, args.slots, args.length, args.seconds)
    for name, limit in LIMITS.items():
        row = found[name]
        interval = f"{row['low']:.2f} to {row['high']:.2f}"
        print(f"{name}: {row['ratio']:.2f} ({interval}) times a plain step, at most {limit}")
    RESULTS.replace({**found, "limits": LIMITS})


if __name__ == "__main__":
    main()
