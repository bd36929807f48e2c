"""Answers of a model to a large file: speed against a bare loop over batches, and memory.

    python benchmarks/predict.py [--rows 10000] [--turns 5]

A small classifier with random weights reads a csv of made-up sentences of 3 to 40 words. The bare
loop reads the same rows, tokenises all of them, sorts them by length, and takes the likeliest class
of each batch: the least that could be done, with everything in memory. Both take turns, in seconds
of one processor; the figure is the median of the ratios. Memory is the growth of the largest
resident size while a file ten times as long is answered. Results: benchmarks/results/predict.json.
"""

import csv
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import torch
from harness import Parts, arguments

from formwright.arch import Classify, Frame, parse
from formwright.model import build
from formwright.tasks.batching import in_order
from formwright.tasks.reading import Reading
from formwright.tasks.text import make_tokenizer
from formwright.use import Loaded
from formwright.use.rows import Columns, answered, read_file, writer

RESULTS = Parts("predict")
WORDS = [f"word{n}" for n in range(5000)]


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=5)
    asked = parser.parse_args()
    model = made()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small, large = folder / "in.csv", folder / "large.csv"
        write(small, asked.rows)
        write(large, 10 * asked.rows)
        ratios = []
        for _ in range(asked.turns):
            ours = timed(lambda: product(model, small, folder / "out.csv"))
            bare = timed(lambda: loop(model, small))
            ratios.append(bare / ours)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        product(model, large, folder / "out.csv")
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found = {
        "rows": asked.rows,
        "speed_of_bare_loop": round(statistics.median(ratios), 3),
        "turns": [round(ratio, 3) for ratio in ratios],
        "megabytes_more_for_ten_times_the_rows": round(grown, 1),
    }
    RESULTS.replace(found)
    print(json.dumps(found, indent=1))


def made() -> Loaded:
    """A classifier of 77 classes, 128 wide."""
    tokenizer = make_tokenizer("words", [" ".join(WORDS)] * 2, ("pad",))
    frame = Frame(tokenizer.vocab, 64, Classify(77, pool="mean"))
    model = build(parse("(sf)x2 in llama_encoder(128)").bind(frame).check())
    reading = Reading("classify", tokenizer, 64, tuple(f"class {n}" for n in range(77)))
    return Loaded(Path("."), model, reading, {})


def write(path: Path, rows: int) -> None:
    """A csv of made-up sentences."""
    rng = Random(0)
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text"])
        for row in range(rows):
            table.writerow([row, " ".join(rng.choices(WORDS, k=rng.randint(3, 40)))])


def product(model: Loaded, path: Path, out: Path) -> None:
    """What ``formwright predict --file --out`` does."""
    with writer(out) as keep:
        for fields, answer in answered(read_file(path), Columns(model.reading), model.stream):
            keep(fields, answer)


@torch.inference_mode()
def loop(loaded: Loaded, path: Path) -> list[int]:
    """The least that could be done."""
    with open(path, encoding="utf-8", newline="") as file:
        tokens = [loaded.reading.tokenizer.encode(row["text"])[:64] for row in csv.DictReader(file)]
    lengths = np.array([[len(row)] for row in tokens])
    found = [0] * len(tokens)
    for group in in_order(lengths, loaded.batch_tokens):
        longest = int(lengths[group].max())
        values = np.zeros((len(group), longest), np.int64)
        for place, row in enumerate(group):
            values[place, : len(tokens[row])] = tokens[row]
        mask = torch.from_numpy(np.arange(longest) < lengths[group])
        best = loaded.model(torch.from_numpy(values), mask).argmax(dim=-1)
        for row, label in zip(group, best.tolist(), strict=True):
            found[row] = label
    return found


def timed(work: Callable[[], object]) -> float:
    """Seconds of a processor."""
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
