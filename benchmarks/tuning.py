"""A pre-trained encoder tuned on a task: formwright against transformers' own Trainer.

    python benchmarks/tuning.py --model FOLDER --data FOLDER [--only banking77 sst2] [--seeds 3]
                                [--ways ours trainer default]

MODEL is a BERT-shaped checkpoint such as MiniLM; DATA holds banking77/ and
uncertain_licence/sst2/. Both sides read the same rows (all of banking77; 3,000 rows of SST-2 drawn
once), for as many epochs, with the same rate, schedule, warm-up and decay, in batches of about as
many rows; both are measured on the whole test rows (SST-2: validation), with the weights they end
with. The Trainer has the head of BertForSequenceClassification; formwright has its own, a mean
over tokens, and beside it what it does by default (three epochs, a higher rate, lower layers more
slowly, best weights kept).
The rival without a pre-trained model is TF-IDF with a linear model. A row is written as soon as it
is done; results: benchmarks/results/tuning.json. One thread, about 8 minutes a row.
"""

import json
import math
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from harness import Rows, arguments

from formwright.estimate.plain import fit_linear
from formwright.train import train
from formwright.use.tuning import Tuning

RESULTS = Rows("tuning")
RATE, BATCH, WARM, DECAY, LENGTH, EPOCHS = 1e-4, 16, 0.06, 0.01, 64, 2
ROWS = 3000  # of SST-2


def main() -> None:
    """Tune what is not on record."""
    parser = arguments(__doc__, data=True, only=[], seeds=3)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--ways", nargs="*", default=[name for name, _ in WAYS])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, (task, split) in cases(asked.data, Path(folder)).items():
            if asked.only and name not in asked.only:
                continue
            tuning = Tuning.of(asked.model, f"classify:{task}?length={LENGTH}")
            for seed in range(asked.seeds):
                for way, work in WAYS:
                    if way in asked.ways:
                        keep(name, way, seed, partial(work, tuning, split, seed))
            keep(name, "tf-idf", 0, partial(plain, tuning.task, split))
    for line in summary(RESULTS.read()):
        print(line)


def cases(data: Path, folder: Path) -> dict[str, tuple[Path, str]]:
    """Name to data and the split that is measured on."""
    sst2 = data / "uncertain_licence" / "sst2"
    return {"banking77": (data / "banking77", "test"), "sst2": (some(sst2, folder), "valid")}


def some(source: Path, folder: Path) -> Path:
    """Some rows of a task with two classes, as files of their own."""
    from formwright.tasks.classify import ClassifyOptions, find_sources, read_records

    options = ClassifyOptions(empty="skip")
    known, *_ = read_records(find_sources(source, options), options, pair=False)
    place = folder / source.name
    place.mkdir()
    for split in ("train", "valid"):
        rows = known[split]
        if split == "train":
            rows = Random(0).sample(rows, min(ROWS, len(rows)))
        lines = [json.dumps({"text": row.texts[0], "label": row.label}) for row in rows]
        (place / f"{split}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


# --- ways ---------------------------------------------------------------------------------


def ours(tuning: Tuning, split: str, seed: int) -> float:
    """The Trainer's numbers, here."""
    config = tuning.config(None, None, epochs=EPOCHS).replace(
        lr=RATE, weight_decay=DECAY, seed=seed, layer_decay=1.0, keep_best=False,
        evaluate_every=0, score_batches=1,
    )  # fmt: skip
    return accuracy(tuning, split, config, seed)


def default(tuning: Tuning, split: str, seed: int) -> float:
    """What ``formwright train FOLDER`` does."""
    config = tuning.config(None, None)
    return accuracy(tuning, split, config.replace(seed=seed, score_batches=1), seed)


def accuracy(tuning: Tuning, split: str, config: Any, seed: int) -> float:
    """Tune, and measure on all rows of a split."""
    model, result = train(tuning.begun(config, seed), tuning.task, config)
    if result.state != "finished":  # a row of a training that was stopped would be none
        raise SystemExit(f"seed {seed} was {result.state}; begin again")
    return float(tuning.task.score(model, split, batch_tokens=8192)["accuracy"])


def trainer(tuning: Tuning, split: str, seed: int) -> float:
    """transformers' Trainer, as its documentation shows."""
    import transformers

    task: Any = tuning.task
    tokenizer = transformers.AutoTokenizer.from_pretrained(tuning.folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        tuning.folder, num_labels=len(task.labels)
    )
    torch.manual_seed(seed)
    model.classifier.reset_parameters()

    def rows(name: str) -> list[dict[str, Any]]:
        encoded = tokenizer(task.texts(name), truncation=True, max_length=LENGTH)["input_ids"]
        return [
            {"input_ids": ids, "labels": int(label)}
            for ids, label in zip(encoded, task.split(name).targets, strict=True)
        ]

    steps = EPOCHS * math.ceil(len(task.split("train")) / BATCH)
    with tempfile.TemporaryDirectory() as out:
        arguments = transformers.TrainingArguments(
            out, num_train_epochs=EPOCHS, learning_rate=RATE, per_device_train_batch_size=BATCH,
            warmup_steps=round(WARM * steps), weight_decay=DECAY, seed=seed, use_cpu=True,
            report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        job = transformers.Trainer(
            model=model,
            args=arguments,
            train_dataset=rows("train"),  # type: ignore[arg-type]
            data_collator=transformers.DataCollatorWithPadding(tokenizer),
        )
        job.train()
        found = job.predict(rows(split))  # type: ignore[arg-type]
    return float((found.predictions.argmax(-1) == found.label_ids).mean())


WAYS = (("ours", ours), ("trainer", trainer), ("default", default))


def plain(task: Any, split: str) -> float:
    """TF-IDF with a linear model, on the same rows as the others."""
    model = fit_linear(task.texts("train"), np.array(task.split("train").targets), len(task.labels))
    said = model.scores(task.texts(split)).argmax(dim=1).numpy()
    return float((said == np.array(task.split(split).targets)).mean())


# --- the table ------------------------------------------------------------------------------


def keep(name: str, way: str, seed: int, work: Callable[[], float]) -> None:
    """Do it and write it down, unless it is on record."""

    def measured() -> dict[str, Any]:
        began = time.process_time()
        return {"accuracy": round(work(), 4), "seconds": round(time.process_time() - began)}

    RESULTS.once({"case": name, "way": way, "seed": seed}, measured)


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Means with their spread."""
    found = []
    for key in dict.fromkeys((row["case"], row["way"]) for row in rows):
        values = [row["accuracy"] for row in rows if (row["case"], row["way"]) == key]
        spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
        found.append(f"{key[0]:10} {key[1]:8} {np.mean(values):.4f} +- {spread:.4f}")
    return found


if __name__ == "__main__":
    main()
