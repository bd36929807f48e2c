"""DARTFormer on real tasks: does the score of a block tell how good its homogeneous model will be?

    python benchmarks/oneshot_dartformer.py [--tasks listops imdb csv] [--seeds 3] [--data FOLDER]

For each task and seed: the nine-block supernet is trained and its blocks are scored (algorithm 1),
then the nine homogeneous models of full depth and one with softmax attention are trained from new
weights. Reported: scores with error bars, accuracies on validation and test rows, the rank
correlation of scores and test accuracies (Spearman), and where the chosen mechanism comes among
the nine. ListOps is generated, and for ``csv`` written as a user's own tables are; IMDb is read as
bytes from FOLDER, which holds train, valid and test as jsonl or jsonl.xz. One thread; a file that
exists is continued, and so is a run that was killed.
"""

import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import Parts, arguments, results, unpacked

from formwright.arch import Encoder
from formwright.arch.mechanism import (
    BigBird,
    LinearTransformer,
    Linformer,
    Local,
    Longformer,
    Mechanism,
    Performer,
    Reformer,
    Sparse,
    Synthesizer,
)
from formwright.estimate.training import known_task
from formwright.files import write_atomically
from formwright.recipes import dartformer
from formwright.recipes.life import begin
from formwright.recipes.session import SUPERNET, Session
from formwright.space.dartformer import Encoders, all_heads
from formwright.statistics import spearman
from formwright.tasks.examples import ExampleTask
from formwright.trace import Trace
from formwright.train import TrainConfig, train
from formwright.zoo.dartformer import NORM

LISTOPS = "listops-tiny?pool=cls&valid=2000&test=2000"
BYTES = 512  # of a review; the paper reads 1,000
# The paper's ranges are a twentieth to a half of its texts; so are these.
TEXT_KINDS: dict[str, Mechanism] = {
    "bigbird": BigBird(block=32, random_blocks=2),
    "linear": LinearTransformer(),
    "linformer": Linformer(slots=32),
    "local": Local(block=32),
    "longformer": Longformer(window=128),
    "performer": Performer(),
    "reformer": Reformer(chunk=52),
    "sparse": Sparse(block=32, summary=8),
    "synthesizer": Synthesizer(rank=16),
}


def listops(seed: int) -> dartformer.Dartformer:
    """The small preset, measured on more rows."""
    made = dartformer.small("best")
    return replace(made, task=LISTOPS, seed=seed)


def csv(seed: int, work: Path) -> dartformer.Dartformer:
    """The same lists as a user's own tables, a word for each symbol."""
    folder, task = work / "csv", known_task(LISTOPS)
    assert isinstance(task, ExampleTask)
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "valid", "test"):
        path, data = folder / f"{split}.csv", task.split(split)
        if not path.exists():
            rows = [
                f"{' '.join(f'w{symbol}' for symbol in data.columns['tokens'][i])},c{label}"
                for i, label in enumerate(data.targets)
            ]
            write_atomically(path, "\n".join(["text,label", *rows, ""]).encode())
    own = f"classify:{folder}?tokenizer=spaces&length={task.frame.length}&pool=cls"
    return replace(dartformer.small("best").for_task(own), seed=seed)


def imdb(seed: int, data: Path, work: Path) -> dartformer.Dartformer:
    """Reviews as bytes, the first 512 of each, with the mean of all places read.

    With one place read, as in the paper, 5,000 reviews are too few: 0.50 to 0.56 of them are told.
    The supernet is trained like the models that it ranks, with three of nine blocks per batch.
    """
    folder = work / "imdb"
    folder.mkdir(parents=True, exist_ok=True)
    unpacked(data, folder, *(f"{split}.jsonl" for split in ("train", "valid", "test")))
    task = f"classify:{folder}?tokenizer=bytes&length={BYTES}&pool=mean"
    encoders = Encoders(
        backbone=Encoder(32, norm=NORM, init="lra"),
        frame=known_task(task).frame,
        blocks=all_heads(TEXT_KINDS, 2),
        inner=64,
        layers=2,
    )
    training = TrainConfig(steps=1200, batch_tokens=16 * BYTES, lr=2e-3, warmup=100)
    return replace(
        dartformer.small("best"),
        encoders=encoders,
        task=task,
        search=training.replace(steps=2 * 1200),
        training=training,
        seed=seed,
    )


def one(made: dartformer.Dartformer, folder: Path) -> dict[str, Any]:
    """Scores, then accuracies, for one seed; each part is kept when it is done."""
    began = time.perf_counter()
    made.find(Session(made, begin(made, folder), say=print))
    stages = Trace(folder / SUPERNET).stages()
    searched = time.perf_counter() - began
    kinds, task = made.encoders.kinds, known_task(made.task)
    (scores,) = stages[0].worth.values()
    (answers,) = stages[0].scores.values()
    (errors,) = stages[0].rise_errors.values()
    space = made.encoders.layer_wise()
    members = {k: space.resolve(made.encoders.homogeneous(k, mixed=False)) for k in kinds}
    members["softmax"] = made.encoders.full()
    config = made.training.replace(seed=made.seed)
    accuracy: dict[str, dict[str, float]] = {}
    for name, arch in members.items():
        model, result = train(arch, task, config, out=folder / name)
        tested = task.score(model, "test", batch_tokens=config.batch_tokens)
        accuracy[name] = {"valid": result.scores["accuracy"], "test": tested["accuracy"]}
        print(f"  {name}: valid {accuracy[name]['valid']:.4f} test {accuracy[name]['test']:.4f}")
    tests = [accuracy[k]["test"] for k in kinds]
    chosen = made.encoders.described("best", made.encoders.left("best", stages[-1].alive))
    return {
        "seed": made.seed,
        "supernet_accuracy": stages[0].accuracy,
        "scores": {k: round(scores[i], 5) for i, k in enumerate(kinds)},
        "errors": {k: round(errors[i], 5) for i, k in enumerate(kinds)},
        "scores_by_accuracy": {k: round(answers[i], 5) for i, k in enumerate(kinds)},
        "halves_agree": stages[0].agreement,
        "certain": stages[0].certain,
        "chosen": chosen,
        "accuracy": accuracy,
        "spearman": round(spearman([scores[i] for i in range(len(kinds))], tests), 4),
        "place_of_chosen": 1 + sum(value > accuracy[chosen]["test"] for value in tests),
        "seconds": {
            "search": round(searched, 1),
            "models": round(time.perf_counter() - began - searched, 1),
        },
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds, and how well one seed's scores agree with another's."""
    kinds = list(runs[0]["scores"])
    values = [run["spearman"] for run in runs]
    mean = {k: statistics.fmean(run["accuracy"][k]["test"] for run in runs) for k in kinds}
    pairs = [(a, b) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    agree = [spearman(list(a["scores"].values()), list(b["scores"].values())) for a, b in pairs]
    worth = {k: statistics.fmean(run["scores"][k] for run in runs) for k in kinds}
    return {
        "seeds": len(runs),
        "spearman_mean": round(statistics.fmean(values), 4),
        "spearman_spread": round(statistics.stdev(values), 4) if len(values) > 1 else None,
        "spearman_of_means": round(spearman(list(worth.values()), list(mean.values())), 4),
        "scores_agree_between_seeds": round(statistics.fmean(agree), 4) if agree else None,
        "mean_test_accuracy": {k: round(v, 4) for k, v in mean.items()},
        "mean_score": {k: round(v, 5) for k, v in worth.items()},
        "best_single": max(mean, key=lambda k: mean[k]),
        "chosen": [run["chosen"] for run in runs],
        "test_of_chosen": [run["accuracy"][run["chosen"]]["test"] for run in runs],
        "test_of_random_pick": round(statistics.fmean(mean.values()), 4),
        "test_of_softmax": [run["accuracy"]["softmax"]["test"] for run in runs],
        "place_of_chosen": [run["place_of_chosen"] for run in runs],
    }


def main() -> None:
    """Tasks and seeds that are not on file yet."""
    parser = arguments(__doc__, seeds=3, data=False)
    parser.add_argument(
        "--tasks", nargs="+", choices=("listops", "imdb", "csv"), default=["listops"]
    )
    parser.add_argument("--work", type=Path, default=Path("runs") / "oneshot-dartformer")
    parser.add_argument("--out", type=Path, default=results("oneshot-dartformer"))
    asked = parser.parse_args()
    if "imdb" in asked.tasks and asked.data is None:
        parser.error("imdb needs --data FOLDER with train, valid and test as jsonl or jsonl.xz")
    parts = Parts(asked.out)
    for task in asked.tasks:
        for seed in range(asked.seeds):
            row = parts.read().get(task, {"runs": []})
            if any(run["seed"] == seed for run in row["runs"]):
                continue
            made = listops(seed)
            if task != "listops":
                own = task == "csv"
                made = csv(seed, asked.work) if own else imdb(seed, asked.data, asked.work)
            folder = asked.work / f"{task}-{seed}"
            row["runs"].append(one(made, folder))
            row["setting"] = {"task": made.task.partition("?")[2], "training": vars(made.training)}
            row["setting"]["search"] = vars(made.search)
            row["summary"] = summary(row["runs"])
            parts.keep(task, row, say=False)
            print(task, json.dumps(row["summary"], indent=1), flush=True)


if __name__ == "__main__":
    main()
