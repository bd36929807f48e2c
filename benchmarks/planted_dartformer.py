"""Planted truth for DARTFormer: tasks that one mechanism of nine solves best in one layer.

    python benchmarks/planted_dartformer.py [--seeds 10] [--out FILE]

The model is told no positions. ``mirror``: each tag is the token at the mirrored place; only a
Synthesizer, which scores pairs of positions, can look there. ``so far``: each tag is the most
frequent token up to it; a Sparse Transformer sees the past alone, others learn part of it. Each
mechanism is trained by itself first, so that what it can do is known; then algorithm 1 is run with
several seeds and must choose the planted one. One thread. A file that exists is continued.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import Parts, arguments, results

from formwright.arch import Encoder
from formwright.arch.mechanism import Linformer, Sparse
from formwright.estimate.training import known_task
from formwright.recipes import dartformer
from formwright.recipes.life import begin
from formwright.recipes.session import SUPERNET, Session
from formwright.space.dartformer import TINY, Encoders, all_heads
from formwright.trace import Trace
from formwright.train import TrainConfig, train
from formwright.zoo.dartformer import NORM

PLANTS = {"mirror": ("planted-mirror", "synthesizer"), "so far": ("planted-sofar", "sparse")}
TRAINING = TrainConfig(steps=300, batch_tokens=1024, lr=3e-3, warmup=20, checkpoint_every=1000)


def recipe(task: str, seed: int) -> dartformer.Dartformer:
    """Algorithm 1 on a planted task: one layer of width 32, texts of 32 tokens."""
    kinds = {**TINY, "sparse": Sparse(block=32), "linformer": Linformer(slots=4, lra=True)}
    encoders = Encoders(
        backbone=Encoder(32, position=None, norm=NORM, init="lra"),
        frame=known_task(task).frame,
        blocks=all_heads(kinds, 2),
        inner=64,
        layers=1,
    )
    return replace(
        dartformer.small("best"), encoders=encoders, task=task, search=TRAINING, seed=seed
    )


def alone(task: str) -> dict[str, float]:
    """What each mechanism reaches by itself, and softmax attention beside them."""
    made = recipe(task, 0)
    space, found = made.encoders.layer_wise(), {}
    members = {k: made.encoders.homogeneous(k, mixed=False) for k in made.encoders.kinds}
    for name, arch in {
        "softmax": made.encoders.full(),
        **{kind: space.resolve(decisions) for kind, decisions in members.items()},
    }.items():
        _, result = train(arch, known_task(task), TRAINING)
        found[name] = round(result.value or 0.0, 4)
    return found


def searched(task: str, seed: int) -> dict[str, Any]:
    """One run of algorithm 1."""
    made, began = recipe(task, seed), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        made.find(Session(made, begin(made, Path(folder))))
        stages = Trace(Path(folder) / SUPERNET).stages()
    (scores,) = stages[0].worth.values()
    (errors,) = stages[0].errors.values()
    kinds = made.encoders.kinds
    return {
        "seed": seed,
        "chosen": made.encoders.described("best", made.encoders.left("best", stages[-1].alive)),
        "accuracy": stages[0].accuracy,
        "scores": {kinds[o]: round(v, 5) for o, v in scores.items()},
        "errors": {kinds[o]: round(v, 5) for o, v in errors.items()},
        "certain": stages[0].certain,
        "seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    """Every plant, every seed; what is on file already is not done again."""
    parser = arguments(__doc__, seeds=10)
    parser.add_argument("--out", type=Path, default=results("planted-dartformer"))
    asked = parser.parse_args()
    parts = Parts(asked.out)
    for plant, (task, winner) in PLANTS.items():
        row = parts.read().get(plant, {"task": task, "planted": winner, "runs": []})
        if "alone" not in row:
            row["alone"] = alone(task)
            print(plant, "alone:", row["alone"], flush=True)
        for seed in range(len(row["runs"]), asked.seeds):
            row["runs"].append(searched(task, seed))
            print(plant, row["runs"][-1], flush=True)
            row["right"] = sum(run["chosen"] == winner for run in row["runs"])
            row["certain"] = sum(run["certain"] for run in row["runs"])
            parts.keep(plant, row, say=False)
        print(f"{plant}: {winner} chosen in {row['right']} of {len(row['runs'])} runs")


if __name__ == "__main__":
    main()
