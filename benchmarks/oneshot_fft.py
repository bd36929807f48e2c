"""Finding Fast Transformers on real tasks: how much faster, at a small loss that was accepted.

    python benchmarks/oneshot_fft.py --data FOLDER [--only runs spanish minilm] [--seeds 3]
                                     [--minilm FOLDER] [--runs FOLDER]

FOLDER holds universal_dependencies/ and banking77/. ``runs``: tags of the English treebank, a
network of MiniBERT's proportions, at most 0.3 points below it on the development part. ``spanish``:
the same on what there is of the Spanish one (1,100 sentences of GSD's development part and the
1,000 of PUD to train on, the other 300 to decide by, GSD's test part). ``minilm``: a Hugging Face
folder (--minilm) fine-tuned on 77 intents, at most a point below it.

DO and SDO search from the trained network with rising prices, up to the accepted loss on the
validation split; what they find is scored with inherited weights and trained anew (-R), with random
networks of the same predicted time beside. Test scores are taken at the end, once, and no decision
hangs on them. Every run is resumable, and rows on record are left alone. One thread; the paper has
1.7 over MiniBERT at 0.4 points below it. Results: benchmarks/results/oneshot-fft.json.
"""

import json
import lzma
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import Parts, arguments

from formwright.cost import Target, compare
from formwright.estimate.training import known_task
from formwright.model import load_model
from formwright.recipes.fft import Fft, small
from formwright.recipes.life import begin, conduct
from formwright.space.components import Cut
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.train import TrainConfig

WHAT = ("runs", "spanish", "minilm")
DECIDE = 300  # Spanish sentences that decisions are made by


def tags(treebank: Path, seed: int) -> Fft:
    """MiniBERT's shape at half its width, and numbers that fit ten minutes of one core."""
    made = small("mini")
    training = TrainConfig(
        steps=700, batch_tokens=1024, lr=2e-3, warmup=70, dropout=0.2, weight_decay=0.05,
        checkpoint_every=200, log_every=25,
    )  # fmt: skip
    prices = (0.2, 0.6, 1.8)
    return replace(
        made,
        name="fft-mini-small",
        task=f"tag:{treebank}",
        cut=Cut(layers=3, width=128, heads=4, inner=512, head_parts=4, inner_parts=8),
        methods=tuple(replace(method, prices=prices, refine=2) for method in made.methods),
        training=training,
        search=training.replace(steps=300, lr=5e-4, warmup=20, schedule="constant"),
        settling=training.replace(steps=100, lr=5e-4, warmup=0),
        accept=0.003,
        target=Target(batch=16, length=32),
        random=1,
        workers=1,
        seed=seed,
    )


def intents(data: Path, model: Path, seed: int) -> Fft:
    """DO for a model that a user has, at most a point below it; 20 minutes of one core."""
    made = small("mini")
    training = made.training.replace(steps=450)
    made = replace(
        made,
        task=f"classify:{data / 'banking77'}",
        methods=tuple(
            replace(method, prices=(0.2, 0.6), refine=0)
            for method in made.methods
            if method.kind == "do"
        ),
        training=training,
        search=made.search.replace(steps=200),
        settling=made.settling.replace(steps=80),
        accept=0.01,
        random=1,
        workers=1,
        seed=seed,
    )
    return made.beginning_at(str(model))


def spanish(data: Path, work: Path) -> Path:
    """A folder with train, valid and test of what there is of the Spanish treebanks."""
    folder = work / "es"
    folder.mkdir(parents=True, exist_ok=True)
    gsd, pud = data / "universal_dependencies/es_gsd_eval", data / "universal_dependencies/es_pud"
    known = _sentences(gsd / "valid.conllu.xz")
    parts = {
        "train": known[:-DECIDE] + _sentences(pud / "test.conllu.xz"),
        "valid": known[-DECIDE:],
        "test": _sentences(gsd / "test.conllu.xz"),
    }
    for name, sentences in parts.items():
        text = "".join(f"{sentence}\n\n" for sentence in sentences)
        (folder / f"{name}.conllu").write_text(text, encoding="utf-8")
    return folder


def _sentences(path: Path) -> list[str]:
    text = lzma.decompress(path.read_bytes()).decode()
    return [block for block in text.strip().split("\n\n") if block.strip()]


def tested(folder: Path, task: Any) -> dict[str, float]:
    """Scores on the test split."""
    found: dict[str, float] = task.score(load_model(folder), "test", batch_tokens=4096)
    return found


def run(made: Fft, folder: Path) -> dict[str, Any]:
    """One seed: the whole recipe, then test scores and paired speed-ups."""
    began = time.perf_counter()
    study = begin(made, folder, say=print)
    conduct(made, study, say=lambda text: print(text, flush=True))
    study = Study.open(folder)
    task, outcome = known_task(made.task), read_outcome(folder)
    assert outcome.baseline is not None
    target = Target(**study.meta["target"])
    rows = [
        {
            "what": "whole network",
            "valid": outcome.baseline.values["accuracy"],
            "test": tested(folder / "baseline" / "run" / "model", task)["accuracy"],
            "params": outcome.baseline.values["params"],
        }
    ]
    for trial in study.trials:
        if not trial.done:
            continue
        arch: Any = study.space.resolve(trial.decisions)
        own = study.trial_folder(trial.number)
        ratio = compare(arch, made.make_baseline()[1], target, seconds=4.0, precision=0.01)
        row: dict[str, Any] = {
            "what": trial.made_by,
            "speedup": [1 / ratio.ratio, 1 / ratio.high, 1 / ratio.low],
            "params": trial.values["params"],
            "new_valid": trial.values["accuracy"],
            "new_test": tested(own / "run" / "model", task)["accuracy"],
        }
        if (own / "inherited").exists():
            row["price"] = trial.values["price"]
            row["inherited_valid"] = trial.values["inherited_accuracy"]
            row["inherited_test"] = tested(own / "inherited", task)["accuracy"]
        rows.append(row)
    profile = {
        str(length): json.loads((folder / "phases" / f"profile-{length}.json").read_text())
        for length in made.profiled
    }
    return {
        "seed": made.seed,
        "headline": outcome.headline,
        "rows": rows,
        "profile": profile,
        "seconds": time.perf_counter() - began,
    }


def main() -> None:
    """Run the seeds that are missing."""
    parser = arguments(__doc__, seeds=3, data=True, only=WHAT)
    parser.add_argument("--minilm", type=Path, help="folder of a Hugging Face model")
    parser.add_argument("--runs", type=Path, default=Path("runs") / "oneshot-fft")
    asked = parser.parse_args()
    table = Parts("oneshot-fft")

    def made(what: str, seed: int) -> Fft:
        if what == "minilm":
            return intents(asked.data, asked.minilm, seed)
        if what == "spanish":
            return tags(spanish(asked.data, asked.runs), seed)
        return tags(asked.data / "universal_dependencies" / "en_ewt", seed)

    for what in asked.only or WHAT:
        if what == "minilm" and asked.minilm is None:
            print("minilm: give its folder with --minilm")
            continue
        for seed in range(len(table.read().get(what, [])), asked.seeds):
            found = run(made(what, seed), asked.runs / what / str(seed))
            print(json.dumps(found["rows"], indent=1), found["headline"], flush=True)
            table.keep(what, [*table.read().get(what, []), found], say=False)


if __name__ == "__main__":
    main()
