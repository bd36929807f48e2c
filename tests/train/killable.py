"""A training run that a test starts as a process of its own, in order to kill it.

python -m tests.train.killable FOLDER STEPS PRECISION PAUSE [best]
"""

import sys
import time
from pathlib import Path

import torch
from tests.train.toy import ToyTask, architecture

from formwright.train import TrainConfig, train


def config(steps: int, precision: str, best: bool = False) -> TrainConfig:
    return TrainConfig(
        steps=steps,
        precision=precision,  # type: ignore[arg-type]
        batch_tokens=48,
        checkpoint_every=7,
        evaluate_every=9,
        log_every=3,
        dropout=0.1,
        memory=16,
        warmup=5,
        accumulate=2,
        keep_best=best,
        lr=0.05 if best else 1e-3,  # so high that the last weights are not the best
    )


def main() -> None:
    folder, steps, precision, pause, *best = sys.argv[1:]
    torch.set_num_threads(1)

    def on_event(event: dict[str, object]) -> None:
        print(event["kind"], event.get("step", ""), flush=True)
        time.sleep(float(pause))

    numbers = config(int(steps), precision, bool(best))
    train(architecture(), ToyTask(), numbers, out=Path(folder), on_event=on_event)


if __name__ == "__main__":
    main()
