"""Features of an encoding for a cheap predictor with uncertainty, Bayesian ridge regression.

Measured values of networks are nearly smooth functions of a few totals: how wide, how deep, how
much in all layers together. So the features are the encoding itself, the sums over columns whose
names differ only by a trailing number (``inner0``, ``inner1``, ...), and products of two of those
totals. With ten or twenty trials there are more features than data, and what decides is which of
them may explain first: the totals, or each layer on its own. A few such beliefs are tried, and the
one under which the data was most likely (the evidence) is taken; so is how strongly to hold back.
"""

import re
from collections.abc import Sequence

import numpy as np

from formwright.statistics import Array

# n members, c columns of the encoding, f features, t targets

_PAIRED = 24  # totals whose products are formed; more would cost more than they tell
_BELIEFS = ((1.0, 1.0, 1.0), (0.3, 1.0, 1.0), (0.03, 1.0, 1.0), (0.03, 1.0, 0.3))
# how large the effect of a column, of a total and of a product is thought to be
_NUMBERED = re.compile(r"\d+(?=$| in play|=|\[)")  # the number at the end of a decision's name


class Features:
    """Encodings to features.

    Args:
        columns: Names of the encoding's columns.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        groups: dict[str, list[int]] = {}
        for i, column in enumerate(columns):
            groups.setdefault(_NUMBERED.sub("#", column, count=1), []).append(i)
        self.totals = np.zeros((len(columns), len(groups)))
        for j, members in enumerate(groups.values()):
            self.totals[members, j] = 1.0 / len(members)
        count = len(groups) if len(groups) <= _PAIRED else 0
        sizes = len(columns), len(groups), count * (count + 1) // 2
        self.beliefs = np.repeat(np.array(_BELIEFS), sizes, axis=1)  # (beliefs, f)

    def __call__(self, encoded: Array) -> Array:
        """Features (n, f) of encodings (n, c)."""
        totals = encoded @ self.totals
        parts = [encoded, totals]
        if totals.shape[1] <= _PAIRED:
            a, b = np.triu_indices(totals.shape[1])
            parts.append(totals[:, a] * totals[:, b])
        return np.concatenate(parts, axis=1)


class LogScale:
    """Positive targets by their logarithm: costs of networks vary by factors, not by amounts.

    Args:
        values: Values (n, t) seen so far; a target with any value not above 0 stays as it is.
    """

    def __init__(self, values: Array) -> None:
        self.log = (values > 0).all(axis=0)

    def do(self, values: Array) -> Array:
        """Values as they are to be predicted."""
        return np.where(self.log, np.log(np.where(self.log, values, 1.0)), values)

    def undo(self, targets: Array) -> Array:
        """Predicted targets as values."""
        powers = np.exp(np.clip(np.where(self.log, targets, 0.0), -300.0, 300.0))
        return np.where(self.log, powers, targets)
