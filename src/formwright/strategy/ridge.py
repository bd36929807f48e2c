"""A cheap predictor with uncertainty: Bayesian ridge regression on features of an encoding.

Measured values of networks are nearly smooth functions of a few totals: how wide, how deep, how
much in all layers together. So the features are the encoding itself, the sums over columns whose
names differ only by a trailing number (``inner0``, ``inner1``, ...), and products of two of those
totals. How strongly to hold back is chosen by the exact leave-one-out error.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
# n members, c columns of the encoding, f features, t targets

_PAIRED = 24  # totals whose products are formed; more would cost more than they tell
_SHRINK = 10.0 ** np.arange(-4.0, 3.1, 0.5)
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

    def __call__(self, encoded: Array) -> Array:
        """Features (n, f) of encodings (n, c)."""
        totals = encoded @ self.totals
        parts = [encoded, totals]
        if totals.shape[1] <= _PAIRED:
            a, b = np.triu_indices(totals.shape[1])
            parts.append(totals[:, a] * totals[:, b])
        return np.concatenate(parts, axis=1)


class Ridge:
    """Linear regression held back towards 0, several targets at once.

    Args:
        inputs: Features (n, f).
        targets: Values (n, t), finite.
    """

    def __init__(self, inputs: Array, targets: Array) -> None:
        self.center, spread = inputs.mean(axis=0), inputs.std(axis=0)
        self.scale = np.where(spread > 1e-12, 1.0 / np.maximum(spread, 1e-12), 0.0)
        self.shift = targets.mean(axis=0)
        x, y = (inputs - self.center) * self.scale, targets - self.shift
        left, size, self.basis = np.linalg.svd(x, full_matrices=False)  # basis (k, f)
        keep = size > 1e-9 * max(size.max(initial=0.0), 1e-300)
        left, size, self.basis = left[:, keep], size[keep], self.basis[keep]
        seen = left.T @ y  # (k, t)

        share = size**2 / (size**2 + _SHRINK[:, None] * len(x))  # (s, k) what survives
        held = 1.0 - (left**2) @ share.T - 1.0 / len(x)  # (n, s) one minus the leverage
        guess = np.einsum("nk,sk,kt->snt", left, share, seen)
        missed = (y - guess) / np.maximum(held.T[:, :, None], 1e-3)
        errors = (missed**2).mean(axis=1)  # (s, t)
        best = errors.argmin(axis=0)
        shrink = _SHRINK[best] * len(x)  # (t,)
        self.error = np.sqrt(errors[best, np.arange(y.shape[1])])
        below = size[:, None] ** 2 + shrink  # (k, t)
        self.weights = size[:, None] * seen / below
        self.spread = self.error / np.sqrt(below)

    def project(self, inputs: Array) -> Array:
        """Features (n, f) as the predictor sees them (n, k); do it once for many draws."""
        return ((inputs - self.center) * self.scale) @ self.basis.T

    def mean(self, projected: Array) -> Array:
        """What to expect, (n, t)."""
        return projected @ self.weights + self.shift

    def sample(self, projected: Array, rng: np.random.Generator, boldness: float = 1.0) -> Array:
        """One function drawn from those that fit what was seen, at these points (n, t)."""
        drawn = rng.standard_normal(self.weights.shape) * boldness
        return projected @ (self.weights + self.spread * drawn) + self.shift


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
