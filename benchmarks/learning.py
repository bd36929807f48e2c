"""Is learning real? Models trained from scratch, beside the simplest thing that works.

    python benchmarks/learning.py [--data FOLDER] [--only NAME ...] [--seeds 1] [--share 1]

Without --data only the tasks that need no files run. FOLDER holds sst2/, banking77/, en_ewt/ and
multi30k/ (jsonl, conllu and text files, plain or xz). One thread; times are of a shared machine.
Results go to benchmarks/results/learning.json.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from harness import Parts, arguments

from formwright.tasks import load_task
from formwright.tasks.base import Task
from formwright.tasks.metrics import bleu
from formwright.tasks.translate import Translation
from formwright.train import TrainConfig, train

RESULTS = Parts("learning")


@dataclass(frozen=True)
class Case:
    """A task, a model, and what the model must beat."""

    task: str
    arch: str
    width: int
    config: TrainConfig
    rival: str
    floor: Callable[[Task], float]
    split: str = "valid"


def majority(share: float) -> Callable[[Task], float]:
    """A figure that is known."""
    return lambda task: share


def order_one_bytes(task: Task) -> float:
    """Bits per byte of the best guess from the byte before, counted on the validation text."""
    pairs: Counter[tuple[int, int]] = Counter()
    for batch in task.batches("valid", batch_tokens=65536):
        tokens, targets = batch.inputs["tokens"], batch.targets
        real = targets >= 0
        pairs.update(zip(tokens[real].tolist(), targets[real].tolist(), strict=True))
    firsts: Counter[int] = Counter()
    for (a, _), count in pairs.items():
        firsts[a] += count
    total = sum(pairs.values())
    logs = torch.tensor([count / firsts[a] for (a, _), count in pairs.items()]).log2()
    counts = torch.tensor([float(count) for count in pairs.values()])
    return float(-(counts * logs).sum() / total)


def most_frequent_tag(task: Task) -> float:
    """Accuracy of giving every word the tag it has most often in training."""
    seen: dict[int, Counter[int]] = {}
    everywhere: Counter[int] = Counter()
    plan = task.sampler(batch_tokens=8192, seed=0)
    for step in range(plan.steps_per_epoch):
        batch = plan.batch(step)
        real = batch.targets >= 0
        words, tags = batch.inputs["tokens"][real].tolist(), batch.targets[real].tolist()
        for word, tag in zip(words, tags, strict=True):
            seen.setdefault(word, Counter())[tag] += 1
            everywhere[tag] += 1
    usual = everywhere.most_common(1)[0][0]
    right = total = 0
    for batch in task.batches("valid", batch_tokens=8192):
        real = batch.targets >= 0
        words, tags = batch.inputs["tokens"][real].tolist(), batch.targets[real].tolist()
        for word, tag in zip(words, tags, strict=True):
            right += (seen[word].most_common(1)[0][0] if word in seen else usual) == tag
            total += 1
    return right / total


def word_copy(task: Task) -> float:
    """BLEU of the source words given back as the translation, with the task's own splitting."""
    assert isinstance(task, Translation)
    data = task.split("valid")
    source = data.columns["source"]
    copied = [task.words(source[row][:-1].tolist()) for row in range(len(source))]
    return bleu(copied, [task.reference(data, row) for row in range(len(source))])


def cases(data: Path | None) -> dict[str, Case]:
    """What to run."""
    quick = TrainConfig(steps=1500, batch_tokens=2048, lr=2e-3, warmup=100, clip=1.0)
    found = {
        "listops-tiny": Case("listops-tiny", "(sf)x2", 64, quick, "majority", majority(0.11)),
        "stdlib": Case(
            "stdlib", "(scf)x2", 128, quick.replace(steps=600), "order-1 bytes", order_one_bytes
        ),
    }
    if data is not None:
        text = quick.replace(dropout=0.2, lr=1e-3, weight_decay=0.05)
        found |= {
            "sst2": Case(
                f"classify:{data / 'sst2'}?tokenizer=words",
                "csf",
                128,
                text.replace(steps=800, dropout=0.3, lr=3e-3, batch_tokens=4096),
                "TF-IDF and logistic regression",
                majority(0.833),
            ),
            "banking77": Case(
                f"classify:{data / 'banking77'}?tokenizer=words",
                "cfsf",
                192,
                text.replace(steps=1500, dropout=0.3),
                "required",
                majority(0.80),
            ),
            "ud-english": Case(
                f"tag:{data / 'en_ewt'}",
                "csf",
                128,
                text.replace(steps=1500, dropout=0.3, lr=3e-3),
                "most frequent tag per word",
                most_frequent_tag,
            ),
            "multi30k": Case(
                f"translate:{data / 'multi30k' / 'train.en.xz'},"
                f"{data / 'multi30k' / 'train.de.xz'}?tokenizer=bpe:6000",
                "(sf)x2 | (smf)x2",
                128,
                quick.replace(steps=1200, dropout=0.1, warmup=200),
                "copying the source words",
                word_copy,
            ),
        }
    return found


def run(name: str, case: Case, seeds: int) -> dict[str, Any]:
    """Train once per seed and compare."""
    task = load_task(case.task)
    arch = task.architecture(case.arch, case.width)
    floor = case.floor(task)
    values, began = [], time.perf_counter()
    for seed in range(seeds):
        _, result = train(arch, task, case.config.replace(seed=seed))
        values.append(result.value if result.value is not None else float("nan"))
        print(f"{name:14} seed {seed}: {task.metric} {values[-1]:.4f} {result.scores}", flush=True)
    return {
        "metric": task.metric,
        "values": values,
        "mean": statistics.fmean(values),
        "rival": case.rival,
        "floor": floor,
        "arch": case.arch,
        "width": case.width,
        "steps": case.config.steps,
        "seconds_per_seed": (time.perf_counter() - began) / seeds,
    }


def main() -> None:
    """Run the cases that were asked for and keep their results."""
    args = arguments(__doc__, data=False, only=[], seeds=1, share=True).parse_args()
    for name, case in cases(args.data).items():
        if args.only and name not in args.only:
            continue
        steps = round((case.config.steps or 0) * args.share)
        made = replace(case, config=case.config.replace(steps=steps))
        RESULTS.keep(name, run(name, made, args.seeds), say=False)
    print(f"\n{'':14}{'metric':>16}{'ours':>9}{'rival':>9}   beside")
    for name, row in RESULTS.read().items():
        print(
            f"{name:14}{row['metric']:>16}{row['mean']:9.4f}{row['floor']:9.4f}   {row['rival']}, "
            f"{row['seconds_per_seed']:.0f} s"
        )


if __name__ == "__main__":
    main()
