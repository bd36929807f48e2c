"""Found in one domain, used in another: a kept layer in other shapes and on other tasks.

    formwright keep RUN#N --as my_block
    python benchmarks/travel.py my_block --task lm:text8.txt --task tag:train.tsv [--seeds 3]

For each task the present-day shape (Llama's layers, in an encoder or a decoder) is trained with its
own layers, with Primer-EZ's two changes, and with the kept layer in place of both sub-layers (of a
formula: in place of attention), equally long by steps. Rotary positions do not reach programs and
formulas, so a kept layer goes without. Rows are appended to results/travel.json as they are done;
rows that are there are left alone.
"""

import statistics
from functools import partial
from typing import Any

from harness import Rows, arguments, named

from formwright.arch import Architecture, Attention, FeedForward, Formula, Residual, Stack, style
from formwright.arch.architecture import Decoder, Encoder
from formwright.arch.counting import count
from formwright.arch.kept import kept_layer
from formwright.errors import InputError
from formwright.tasks import load_task
from formwright.train import TrainConfig, rate_for, train

CONFIG = TrainConfig(batch_tokens=1024, lr=4e-3, warmup=20, score_batches=64)


def shapes(task: Any, name: str, width: int, depth: int) -> dict[str, Architecture]:
    """The plain shape, the same with Primer-EZ's changes, and with the kept layer."""
    asked = task.style(width).backbone
    if not isinstance(asked, Decoder | Encoder):
        raise InputError(f"{task.name} translates; give a task of one stack.")
    family = style("llama" if isinstance(asked, Decoder) else "llama_encoder", width)
    mixing, feeding = family.letters["s"], family.letters["f"]
    assert isinstance(mixing, Residual)
    assert isinstance(feeding, Residual)
    assert isinstance(mixing.inner, Attention)
    assert isinstance(feeding.inner, FeedForward)
    convolved = mixing.replace(inner=mixing.inner.replace(conv=3))
    squared = FeedForward(4 * width, "squared_relu", bias=False)
    block = kept_layer(name)
    own = (mixing.replace(inner=block), feeding) if isinstance(block, Formula) else (block,)
    layers = {
        "plain": (mixing, feeding),
        "primer-ez": (convolved, feeding.replace(inner=squared)),
        name: own,
    }
    return {
        called: Architecture(Stack(tuple(unit) * depth), family.backbone).fitted(task.frame).check()
        for called, unit in layers.items()
    }


def trained(arch: Architecture, task: Any, steps: int, seed: int) -> dict[str, Any]:
    """What a training comes to."""
    config = CONFIG.replace(steps=steps, seed=seed, lr=rate_for(arch, CONFIG.lr))
    _, result = train(arch, task, config)
    score = round(result.scores.get(task.metric, float("nan")), 5)
    return {task.metric: score, "params": count(arch).params, "state": result.state}


def main() -> None:
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("block")
    parser.add_argument("--task", action="append", required=True)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    table = Rows("travel")
    for name in args.task:
        task = load_task(name)
        about = {"task": named(name), "width": args.width, "depth": args.depth, "steps": args.steps}
        for called, arch in shapes(task, args.block, args.width, args.depth).items():
            values = []
            for seed in range(args.seeds):
                row = {**about, "model": called, "seed": seed}
                found = table.once(row, partial(trained, arch, task, args.steps, seed))
                values.append(found[task.metric])
            print(f"{name}  {called:12} {task.metric} {statistics.fmean(values):.4f}", flush=True)


if __name__ == "__main__":
    main()
