"""A cheap predictor with uncertainty: Bayesian ridge regression on features of an encoding.

Measured values of networks are nearly smooth functions of a few totals: how wide, how deep, how
much in all layers together. So the features are the encoding itself, the sums over columns whose
names differ only by a trailing number (``inner0``, ``inner1``, ...), and products of two of those
totals. With ten or twenty trials there are more features than data, and what decides is which of
them may explain first: the totals, or each layer on its own. A few such beliefs are tried, and the
one under which the data was most likely (the evidence) is taken; so is how strongly to hold back.

Evidence: MacKay 1992, https://doi.org/10.1162/neco.1992.4.3.415
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
# n members, c columns of the encoding, f features, t targets, k directions kept, s strengths

_PAIRED = 24  # totals whose products are formed; more would cost more than they tell
_SHRINK = 10.0 ** np.arange(-5.0, 2.1, 0.5)
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


class Ridge:
    """Linear regression held back towards 0, several targets at once.

    Args:
        inputs: Features (n, f).
        targets: Values (n, t), finite.
        beliefs: How large the effect of each feature may be, (beliefs, f); the one that suits all
            targets best is taken. All features alike if not given.
    """

    def __init__(self, inputs: Array, targets: Array, beliefs: Array | None = None) -> None:
        self.center, spread = inputs.mean(axis=0), inputs.std(axis=0)
        unit = np.where(spread > 1e-12, 1.0 / np.maximum(spread, 1e-12), 0.0)
        self.shift = targets.mean(axis=0)
        x, y = (inputs - self.center) * unit, targets - self.shift
        count, total = len(x), (y**2).sum(axis=0)
        if count > x.shape[1]:  # turned so that few rows hold all there is to know
            turn, x = np.linalg.qr(x)
            y = turn.T @ y

        self.evidence = -np.inf
        for belief in np.ones((1, x.shape[1])) if beliefs is None else beliefs:
            scale = belief / (np.sqrt(((x * belief) ** 2).sum() / count) or 1.0)
            left, size, basis = np.linalg.svd(x * scale, full_matrices=False)  # basis (k, f)
            keep = size > 1e-9 * max(size.max(initial=0.0), 1e-300)
            left, size, basis = left[:, keep], size[keep], basis[keep]
            seen = left.T @ y  # (k, t)
            noise, evidence = _likelihood(size, seen, total, count)
            if (most := float(evidence.max(axis=0).sum())) > self.evidence:
                best = evidence.argmax(axis=0)  # (t,)
                below = size[:, None] ** 2 + _SHRINK[best]  # (k, t)
                self.evidence, self.scale, self.basis = most, scale * unit, basis
                self.error = np.sqrt(noise[best, np.arange(len(best))])
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


def _likelihood(size: Array, seen: Array, total: Array, count: int) -> tuple[Array, Array]:
    """Variance of the noise that fits best, and the log density of the targets then, (s, t).

    Targets are normal around 0, their covariance being noise times (1 + inputs inputs' / strength);
    along the singular directions it is diagonal.
    """
    grown = size**2 / _SHRINK[:, None] + 1.0  # (s, k)
    outside = np.maximum(total - (seen**2).sum(axis=0), 0.0)  # (t,) no direction explains it
    noise = ((1.0 / grown) @ seen**2 + outside) / count
    spread = np.log(grown).sum(axis=1)[:, None]
    density = count * (np.log(2 * np.pi * np.maximum(noise, 1e-300)) + 1.0) + spread
    return noise, -0.5 * density


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
