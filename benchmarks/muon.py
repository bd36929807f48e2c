"""Should Muon be the default? Against AdamW, at equal seconds of one processor.

    python benchmarks/muon.py --data FOLDER [--only stdlib banking tagging] [--share 1]

Four models of 128 wide on three tasks (the text of Python's standard library, 77 intents, tags of
a treebank; FOLDER holds banking77/ and universal_dependencies/), batches of 1,024 tokens, the rate
constant and then falling, dropout and decay as finals have them, best weights kept. Each optimiser
has three rates. A step of Muon took 1.21 to 1.24 times one of AdamW (measured in turns), so it gets
1.21 times fewer steps. One seed, one thread, about 40 minutes of one core. A row is written as soon
as it is done; results: benchmarks/results/muon.json.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any

from harness import Rows, arguments

from formwright.tasks import load_task
from formwright.train import TrainConfig, train
from formwright.train.regularise import regularised

RESULTS = Rows("muon")
RATES = {"adamw": (1e-3, 2e-3, 4e-3), "muon": (2e-3, 4e-3, 8e-3)}
DEARER = 1.21  # what a step of Muon costs, in steps of AdamW


def main() -> None:
    """Train what is not on record, and print the best of each."""
    asked = arguments(__doc__, data=True, only=[], share=True).parse_args()
    for name, (task, models, steps) in cases(asked.data).items():
        for model in models if not asked.only or name in asked.only else ():
            taken = round(steps * asked.share)
            for optimiser, rates in RATES.items():
                for rate in rates:
                    about = {"case": name, "model": model, "optimiser": optimiser, "rate": rate}
                    RESULTS.once(about, partial(row, task, model, optimiser, rate, taken))


def cases(data: Path) -> dict[str, tuple[str, tuple[str, ...], int]]:
    """Name to task, models and steps of AdamW."""
    encoder = ("(sf)x2 in llama_encoder(128)",)
    treebank = data / "universal_dependencies" / "en_ewt"
    return {
        "stdlib": ("stdlib", ("csfcsf in llama(128)", "(sf)x4 in llama(128)"), 1200),
        "banking": (f"classify:{data / 'banking77'}?tokenizer=words", encoder, 600),
        "tagging": (f"tag:{treebank}", encoder, 600),
    }


def row(task: str, model: str, optimiser: str, rate: float, steps: int) -> dict[str, Any]:
    """Train one model."""
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
    return {"steps": taken, result.metric: result.value, "seconds": seconds}


if __name__ == "__main__":
    main()
