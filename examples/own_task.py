"""A task of one's own: rows for each split, and the frame that a model of it needs."""

import sys

import numpy as np

import formwright as fw
from formwright.arch import Classify, Frame
from formwright.tasks.cache import Ragged
from formwright.tasks.examples import Classification
from formwright.tasks.registry import task
from formwright.tasks.splits import Split, generated


@task("even-ones", "whether a row of bits has an even number of ones")
def even_ones(name, options):
    """Twelve bits; symbol 0 fills up short rows, so bits are 1 and 2."""

    def split(seed, rows):
        bits = np.random.default_rng(seed).integers(2, size=(rows, 12))
        tokens = Ragged((bits + 1).reshape(-1), np.arange(rows + 1) * 12)
        return Split({"tokens": tokens}, bits.sum(axis=1) % 2)

    splits = {"train": split(1, 500), "valid": split(2, 100), "test": split(3, 100)}
    frame = Frame(vocab=3, length=12, head=Classify(2))
    return Classification(name, frame, "accuracy", splits, generated(), ["even", "odd"])


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else "runs/own-task"
    few = {"trials": 2, "budget": None, "stages": (4,)}
    found = fw.search("even-ones", width=16, cost="params", out=out, **few)
    print(found.outcome.headline)
