"""Should Muon be the default? Against AdamW, at equal seconds of one processor.

    python benchmarks/muon.py --data FOLDER [--only stdlib banking tagging]

Four models of 128 wide on three tasks (the text of Python's standard library, 77 intents, tags of
a treebank; FOLDER holds banking77/ and universal_dependencies/), batches of 1,024 tokens, the rate
constant and then falling, dropout and decay as finals have them, best weights kept. Each optimiser
has three rates. A step of Muon took 1.21 to 1.24 times one of AdamW (measured in turns), so it gets
1.21 times fewer steps. One seed, one thread, about 40 minutes of one core. A row is written as soon
as it is done; results: benchmarks/results/muon.json.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from formwright.tasks import load_task
from formwright.train import TrainConfig, train
from formwright.train.regularise import regularised

RESULTS = Path(__file__).parent / "results" / "muon.json"
RATES = {"adamw": (1e-3, 2e-3, 4e-3), "muon": (2e-3, 4e-3, 8e-3)}
DEARER = 1.21  # what a step of Muon costs, in steps of AdamW


def main() -> None:
    """Train what is not on record, and print the best of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for name, (task, models, steps) in cases(asked.data).items():
        for model in models if not asked.only or name in asked.only else ():
            for optimiser, rates in RATES.items():
                for rate in rates:
                    row(name, task, model, optimiser, rate, steps)


def cases(data: Path) -> dict[str, tuple[str, tuple[str, ...], int]]:
    """Name to task, models and steps of AdamW."""
    encoder = ("(sf)x2 in llama_encoder(128)",)
    treebank = data / "universal_dependencies" / "en_ewt"
    return {
        "stdlib": ("stdlib", ("csfcsf in llama(128)", "(sf)x4 in llama(128)"), 1200),
        "banking": (f"classify:{data / 'banking77'}?tokenizer=words", encoder, 600),
        "tagging": (f"tag:{treebank}", encoder, 600),
    }


def row(name: str, task: str, model: str, optimiser: str, rate: float, steps: int) -> None:
    """Train one model, if it is not on record."""
    known = {"case": name, "model": model, "optimiser": optimiser, "rate": rate}
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    if any(known.items() <= other.items() for other in rows):
        return
    loaded = load_task(task)
    arch = loaded.architecture(model, 128)
    taken = steps if optimiser == "adamw" else round(steps / DEARER)
    config = TrainConfig(
        batch_tokens=1024, warmup=20, schedule="wsd", cooldown=0.3, score_batches=64,
        checkpoint_every=10**6, steps=taken, optimiser=optimiser, lr=rate,  # type: ignore[arg-type]
        evaluate_every=taken // 10, valid_batches=32, keep_best=True,
    )  # fmt: skip
    began = time.process_time()
    _, result = train(arch, loaded, regularised(config, loaded, arch, taken))
    seconds = round(time.process_time() - began)
    found = {**known, "steps": taken, result.metric: result.value, "seconds": seconds}
    print(json.dumps(found), flush=True)
    RESULTS.write_text(json.dumps([*rows, found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
