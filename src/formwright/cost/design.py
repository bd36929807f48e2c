"""Which architectures to measure so that few suffice: a D-optimal choice from a random pool.

Measured one by one, each time the candidate whose terms are least determined by those chosen
before (https://doi.org/10.1080/00401706.1972.10488867, Fedorov's exchange in its greedy form).
Every third is taken at random, because a correction must see the middle of the space too.
"""

import numpy as np

from formwright.cost.regression import Array

_PENALTY = 1e-3  # so that the first choices are defined
_AT_RANDOM = 3  # every so many, one at random


def chosen(rows: Array, number: int, *, seed: int = 0) -> list[int]:
    """Indices of ``number`` rows of terms that determine the weights best, in order.

    Args:
        rows: One row of terms per candidate.
        number: How many to choose; the first ones alone are a good choice as well.
        seed: Of those taken at random.
    """
    scale = np.abs(rows).mean(axis=0)
    relative = rows[:, scale > 0] / scale[scale > 0]
    relative = relative / relative.mean(axis=1, keepdims=True)  # errors are relative
    rng = np.random.default_rng(seed)
    inverse = np.eye(relative.shape[1]) / _PENALTY
    free, found = np.ones(len(rows), dtype=bool), list[int]()
    unknown = np.einsum("ij,jk,ik->i", relative, inverse, relative)
    while len(found) < min(number, len(rows)):
        if len(found) % _AT_RANDOM == _AT_RANDOM - 1:
            pick = int(rng.choice(np.flatnonzero(free)))
        else:
            pick = int(np.argmax(np.where(free, unknown, -np.inf)))
        free[pick] = False
        found.append(pick)
        turned = inverse @ relative[pick]
        gain = 1 + float(relative[pick] @ turned)
        unknown = unknown - (relative @ turned) ** 2 / gain
        inverse = inverse - np.outer(turned, turned) / gain
    return found
