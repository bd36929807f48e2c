"""How much dropout for how much data? What ``regularised`` rests on.

    python benchmarks/dropout.py FOLDER [--only NAME ...]

FOLDER holds banking77 (train.jsonl.xz and valid.jsonl.xz: 77 intents of a bank's customers). A
small encoder, two layers and 128 wide, learns it from new weights with the best weights kept, on
all rows and on a quarter of them. One seed; of 1,000 validation rows, a share of 0.8 is known to
0.013 (one standard error). One thread; about 15 minutes of one core. Results go to
benchmarks/results/dropout.json.
"""

import lzma
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Parts, arguments

from formwright.tasks import load_task
from formwright.train import TrainConfig, train

RESULTS = Parts("dropout")
CONFIG = TrainConfig(batch_tokens=2048, lr=2e-3, warmup=50, schedule="wsd", log_every=1000)


@dataclass(frozen=True)
class Case:
    """One training: which share of the rows, how often, and what it is hindered by."""

    share: float
    epochs: int
    dropout: float
    weight_decay: float = 0.01

    @property
    def name(self) -> str:
        """In a word."""
        rest = f"/dropout={self.dropout:g}/decay={self.weight_decay:g}"
        return f"rows={self.share:g}/epochs={self.epochs}{rest}"


CASES = (
    Case(0.25, 40, 0.0),
    Case(0.25, 40, 0.2),
    Case(0.25, 40, 0.4),
    Case(1.0, 20, 0.0),
    Case(1.0, 20, 0.3),
    Case(1.0, 20, 0.1),
    Case(0.25, 40, 0.2, weight_decay=0.1),
)


def some_rows(folder: Path, share: float, out: Path) -> str:
    """The task on every so manieth row, and all rows of the validation set."""
    for split, kept in (("train", round(1 / share)), ("valid", 1)):
        lines = lzma.decompress((folder / f"{split}.jsonl.xz").read_bytes()).splitlines(True)
        (out / f"{split}.jsonl").write_bytes(b"".join(lines[::kept]))
    return f"classify:{out}"


def run(folder: Path, case: Case) -> dict[str, Any]:
    """Train once."""
    with tempfile.TemporaryDirectory() as out:
        task = load_task(some_rows(folder, case.share, Path(out)))
    epoch = task.sampler(batch_tokens=CONFIG.batch_tokens, seed=0).steps_per_epoch
    config = CONFIG.replace(
        steps=epoch * case.epochs,
        evaluate_every=epoch * case.epochs // 20,
        keep_best=True,
        dropout=case.dropout,
        weight_decay=case.weight_decay,
    )
    looks: list[float] = []
    began = time.process_time()
    _, result = train(
        task.architecture("(sf)x2", 128),
        task,
        config,
        on_event=lambda e: looks.append(e[task.metric]) if e["kind"] == "scores" else None,
    )
    found = {
        "metric": task.metric,
        "best": result.value,
        "loss": result.loss,
        "looks": looks,
        "last": looks[-1],
    }
    return {**found, "steps": config.steps, "processor_seconds": time.process_time() - began}


def main() -> None:
    """Run what was asked for and keep it."""
    parser = arguments(__doc__, only=[])
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    for case in CASES:
        if args.only and not any(part in case.name for part in args.only):
            continue
        found = run(args.folder, case)
        print(f"{case.name}: best {found['best']:.4f} last {found['last']:.4f}", flush=True)
        RESULTS.keep(case.name, found, say=False)


if __name__ == "__main__":
    main()
