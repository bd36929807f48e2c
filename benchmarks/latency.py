"""How well latency is measured here, and what it says of published models.

    python benchmarks/latency.py [--parts repeat aa build par shares] [--seconds 1.0]

* repeat: one ratio measured ten times, on the machine as it is and with a busy process beside
  it; the worst distance from the median, paired and with plain timing (median of as many runs).
* aa: an architecture against itself, 100 times; how many intervals contain 1.
* build: how long it takes to have a model of 100 million weights ready for timing.
* par: PAR against Transformer-XL, 64 new tokens after 640; published 9.9 / 15.2 ms on an A100.
* shares: what parts of BERT-base take at 32, 128 and 512 tokens, beside the shares published
  for a TPU v2. A part's share is what is saved by leaving it out of all layers (two layers here,
  as every layer is the same). Values cannot be left out: theirs is twice what is saved by
  halving them. Vertical feed-forward is what two halves one after the other cost on top of one.

One thread. Results go to benchmarks/results/latency.json, part by part.
"""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness import Parts, arguments

from formwright import zoo
from formwright.arch import Architecture, parse
from formwright.cost import Meter, Target, compare, count
from formwright.cost.machine import describe_machine
from formwright.cost.runtime import new_arena, prepare

RESULTS = Parts("latency")
TARGET = Target(length=64)
ONE = parse("(sf)x4 in gpt2(192) for frame(1000, 128, lm)")
OTHER = parse("(sfff)x2 in gpt2(192) for frame(1000, 128, lm)")
PUBLISHED_SHARES = {  # percent of BERT-base's time at length 32, 128, 512
    "feed-forward": (43.3, 58.6, 51.0),
    "heads": (54.9, 40.6, 48.7),
    "query-key": (28.9, 20.6, 21.6),
    "value": (22.8, 19.9, 21.6),
    "norm mean": (0.8, 0.8, 0.7),
    "vertical feed-forward": (0.9, 1.3, 0.1),
}
LENGTHS = (32, 128, 512)


def repeat(seconds: float) -> dict[str, Any]:
    """The same ratio again and again."""
    found: dict[str, Any] = {}
    meter = Meter(TARGET, OTHER)
    for name, beside in (("as it is", 0), ("busy process beside", 1)):
        with busy(beside):
            ratios, plain, widths = [], [], []
            for seed in range(10):
                latency = meter.measure(ONE, seconds=seconds, seed=seed)
                ratios.append(latency.ratio)
                widths.append((latency.high - latency.low) / latency.ratio)
                plain.append(plain_ratio(latency.rounds))
        found[name] = {
            "ratio": statistics.median(ratios),
            "worst_percent": worst_percent(ratios),
            "plain_worst_percent": worst_percent(plain),
            "interval_percent": 100 * statistics.median(widths),
            "load": os.getloadavg()[0],
        }
    return found


def plain_ratio(runs: int) -> float:
    """One model timed after the other, as is usually done."""
    medians = []
    for arch in (ONE, OTHER):
        run = prepare(arch, TARGET)
        times = []
        for _ in range(runs + 3):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        medians.append(statistics.median(times[3:]))
    return medians[0] / medians[1]


def worst_percent(values: list[float]) -> float:
    """The farthest value from the median."""
    middle = statistics.median(values)
    return 100 * max(abs(value / middle - 1) for value in values)


@contextmanager
def busy(number: int) -> Iterator[None]:
    """So many processes that do nothing but run."""
    command = [sys.executable, "-c", "while True: sum(range(100000))"]
    processes = [subprocess.Popen(command) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def against_itself(seconds: float) -> dict[str, Any]:
    """Intervals of a ratio that is known to be 1."""
    meter = Meter(TARGET, ONE)
    found = [meter.measure(ONE, seconds=seconds / 2, seed=seed) for seed in range(100)]
    return {
        "runs": len(found),
        "contain_1": sum(f.low <= 1 <= f.high for f in found),
        "median_interval_percent": 100
        * statistics.median((f.high - f.low) / f.ratio for f in found),
        "spread_percent": 100 * statistics.pstdev(f.ratio for f in found),
        "median_seconds": statistics.median(f.seconds for f in found),
        "load": os.getloadavg()[0],
    }


def building(seconds: float) -> dict[str, Any]:
    """The first model pays for the memory, the next ones use it again."""
    arch, target = zoo.get("bert-base").build(), Target(length=32)
    arena, times = new_arena(target), []
    for _ in range(4):
        start = time.perf_counter()
        arena.reset()
        prepare(arch, target, arena)
        times.append(time.perf_counter() - start)
    return {
        "params": count(arch).params,
        "first_seconds": times[0],
        "next_seconds": statistics.median(times[1:]),
    }


def par(seconds: float) -> dict[str, Any]:
    """PAR's headline."""
    one, base = (zoo.get(name).build() for name in ("par-base", "transformer-xl-base"))
    found = compare(one, base, Target(length=64, past=640), seconds=40 * seconds)
    return {
        "ratio": found.ratio,
        "low": found.low,
        "high": found.high,
        "published": 9.9 / 15.2,
        "rounds": found.rounds,
        "notes": found.notes,
    }


def shares(seconds: float) -> dict[str, Any]:
    """What each part of BERT-base takes, in percent of the whole."""
    whole = bert("s f")
    without: dict[str, tuple[Architecture, Callable[[float], float]]] = {
        "feed-forward": (bert("s"), lambda ratio: 1 - ratio),
        "heads": (bert("f"), lambda ratio: 1 - ratio),
        "query-key": (bert("s f", attention="query_key=none"), lambda ratio: 1 - ratio),
        "value": (bert("s f", attention="value=32"), lambda ratio: 2 * (1 - ratio)),
        "norm mean": (bert("s f", norm="rmsnorm"), lambda ratio: 1 - ratio),
        "vertical feed-forward": (bert("s f f", inner=1536), lambda ratio: ratio - 1),
    }
    found: dict[str, Any] = {}
    for length_number, length in enumerate(LENGTHS):
        meter = Meter(Target(length=length), whole)
        for name, (arch, share) in without.items():
            latency = meter.measure(arch, seconds=4 * seconds)
            ends = sorted(100 * share(end) for end in (latency.low, latency.high))
            found.setdefault(name, {})[str(length)] = {
                "percent": 100 * share(latency.ratio),
                "low": ends[0],
                "high": ends[1],
                "published": PUBLISHED_SHARES[name][length_number],
            }
    return found


def bert(
    layers: str, *, attention: str = "", norm: str = "layernorm", inner: int = 3072
) -> Architecture:
    """Two layers of BERT-base with one thing changed."""
    inside = ", ".join(filter(None, ("12", attention)))
    return parse(
        f"({layers})x2 where s=residual(attention({inside}), place=post, norm={norm}), "
        f"f=residual(feedforward({inner}, gelu), place=post, norm={norm}) "
        "in encoder(768, position=learned, norm=none) for frame(1000, 512, features)"
    )


PARTS: dict[str, Callable[[float], dict[str, Any]]] = {
    "repeat": repeat,
    "aa": against_itself,
    "build": building,
    "par": par,
    "shares": shares,
}


def main() -> None:
    """Run the parts that were asked for and keep what they found."""
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    asked = parser.parse_args()
    RESULTS.keep("machine", describe_machine())
    for name in asked.parts:
        begin = time.perf_counter()
        found = PARTS[name](asked.seconds)
        RESULTS.keep(name, {**found, "took_seconds": round(time.perf_counter() - begin, 1)})


if __name__ == "__main__":
    main()
