"""Two published effects at small scale: the shape of PAR's Table 1, and the order of Primer.

    python benchmarks/shapes.py [--seeds 3] [--only par primer] [--share 1]

Byte language models on the Python standard library, one thread. Results go to
benchmarks/results/shapes.json. PAR: without attention much worse, then quick saturation. Primer:
vanilla, squared ReLU, depthwise convolution after the projections, both (EZ), each better. The
models of Primer are T5's decoder with its first weights, N(0, 1 / inputs), as in the paper: with
GPT-2's positions and N(0, 0.02) squaring shows no effect at this scale (see docs/log.md).
"""

import math
import statistics

from harness import Parts, arguments

from formwright.arch import Architecture, parse
from formwright.tasks import load_task
from formwright.tasks.base import Task
from formwright.train import TrainConfig, train

Found = dict[str, list[float]]  # name to one figure per seed
RESULTS = Parts("shapes")
ORDERS = ("ffffffff", "sffffffff", "(sff)x2ff", "(sf)x3ff", "(sf)x4", "sssfsfff")
PRIMER = {
    "vanilla": ("relu", 0),
    "squared relu": ("squared_relu", 0),
    "depthwise": ("relu", 3),
    "primer-ez": ("squared_relu", 3),
}


def par(task: Task, order: str) -> Architecture:
    """One order of sub-layers, 48 wide, with learned relative positions."""
    text = f"{order} in transformer_xl(48, heads=4, inner=192)"
    return parse(text).bind(task.frame).check()


def primer(task: Task, activation: str, conv: int) -> Architecture:
    """Two layers of T5's decoder, 64 wide, with Primer's changes one by one."""
    text = (
        f"(sf)x2 where s=residual(attention(4, conv={conv}, bias=false)), "
        f"f=residual(feedforward(256, {activation})) in t5_decoder(64)"
    )
    return parse(text).bind(task.frame).check()


def keep(system: str, name: str, value: float) -> None:
    """Write every figure down at once, so that a run cut short has not run for nothing."""
    found: Found = RESULTS.read().get(system, {})
    found.setdefault(name, []).append(value)
    print(f"{system:8} {name:14} {value:.4f}", flush=True)
    RESULTS.keep(system, found, say=False)


def train_par(task: Task, seed: int, share: float) -> None:
    """Every order once."""
    config = TrainConfig(steps=round(800 * share), batch_tokens=768, lr=2e-3, seed=seed, warmup=50)
    for order in ORDERS:
        _, result = train(par(task, order), task, config)
        keep("par", order, result.scores["loss"] / math.log(2))


def train_primer(task: Task, seed: int, share: float) -> None:
    """Every change once."""
    config = TrainConfig(steps=round(400 * share), batch_tokens=1024, lr=2e-3, seed=seed, warmup=50)
    for name, (activation, conv) in PRIMER.items():
        _, result = train(primer(task, activation, conv), task, config)
        keep("primer", name, result.scores["loss"])


def main() -> None:
    """Train everything, seed by seed, and print two tables."""
    args = arguments(__doc__, seeds=3, only=["par", "primer"], share=True).parse_args()
    asked = args.only or ["par", "primer"]
    for system in asked:
        RESULTS.keep(system, {}, say=False)
    short = load_task("stdlib?length=32&valid=100000")
    longer = load_task("stdlib?length=64&valid=100000")
    for seed in range(args.seeds):
        if "par" in asked:
            train_par(short, seed, args.share)
        if "primer" in asked:
            train_primer(longer, seed, args.share)
    for system, unit in (("par", "bits per byte"), ("primer", "nats per byte")):
        print(f"\n{system}, {unit} on held-out text")
        for name, values in RESULTS.read().get(system, {}).items():
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            print(f"  {name:14} {statistics.fmean(values):.3f} (spread {spread:.3f})")


if __name__ == "__main__":
    main()
