"""Statistics that several rooms need: correlations, tests, a regression with uncertainty.

Evidence: MacKay 1992, https://doi.org/10.1162/neco.1992.4.3.415
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
# n members, f features, t targets, k directions kept, s strengths

_SHRINK = 10.0 ** np.arange(-5.0, 2.1, 0.5)


def pearson(a: Sequence[float] | Array, b: Sequence[float] | Array) -> float:
    """Correlation of the values; 0 where one of them is constant."""
    x, y = (np.asarray(values, np.float64) for values in (a, b))
    if len(x) < 2:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    below = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / below if below > 0 else 0.0


def spearman(a: Sequence[float] | Array, b: Sequence[float] | Array) -> float:
    """Correlation of the ranks; equal values share their mean rank."""
    return pearson(_ranks(a), _ranks(b))


def spearman_interval(correlation: float, count: int) -> tuple[float, float]:
    """Where the rank correlation of everything lies, with 95 %, given that of a sample.

    Fisher's transformation with the variance of Bonett and Wright 2000,
    https://doi.org/10.1007/BF02294183. A perfect order counts as half a swap short of it, and
    fewer than four say nothing.
    """
    if count < 4:
        return -1.0, 1.0
    most = 1.0 - 6.0 / (count * (count**2 - 1))
    middle = math.atanh(min(max(correlation, -most), most))
    width = 1.96 * math.sqrt((1.0 + correlation**2 / 2.0) / (count - 3))
    return math.tanh(middle - width), math.tanh(middle + width)


# Student's t, 97.5 %, for 1, 2, ... degrees of freedom; 1.96 + 2.5 / n is near enough beyond.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its 95 % interval (Student), whose ends are NaN for fewer than two values."""
    found = np.asarray(values, np.float64)
    mean, count = float(found.mean()), len(found)
    if count < 2:
        return mean, math.nan, math.nan
    factor = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else 1.96 + 2.5 / (count - 1)
    half = factor * float(found.std(ddof=1)) / math.sqrt(count)
    return mean, mean - half, mean + half


def permutation_test(
    a: Sequence[float], b: Sequence[float], most: int = 20_000
) -> tuple[float, float]:
    """Whether two groups differ in their means, by exchanging members between them.

    Exact where there are at most ``most`` ways to split them, else by so many random ones.

    Returns:
        The share of splits whose means differ at least as much (two-sided), and the least that
        share could be with so many members: where that is large, nothing can be shown.
    """
    pool, count = np.asarray([*a, *b], np.float64), len(a)
    ways = math.comb(len(pool), count)
    least = min(1.0, (2.0 if 2 * count == len(pool) else 1.0) / ways)
    if not count or count == len(pool):
        return 1.0, 1.0
    if ways <= most:
        rows = np.array(list(combinations(range(len(pool)), count)))
    else:
        rng = np.random.default_rng(0)
        rows = np.array([rng.permutation(len(pool))[:count] for _ in range(most)])
    sums, total = pool[rows].sum(axis=1), float(pool.sum())
    gaps = np.abs(sums / count - (total - sums) / (len(pool) - count))
    own = abs(float(np.mean(pool[:count])) - float(np.mean(pool[count:])))
    extreme = int((gaps >= own * (1 - 1e-9) - 1e-15).sum())
    if ways <= most:
        return extreme / len(rows), least
    return (extreme + 1) / (len(rows) + 1), least


def holm(chances: Sequence[float]) -> list[float]:
    """p-values of several tests, raised so that one false alarm in all stays rare (Holm 1979)."""
    order = sorted(range(len(chances)), key=lambda i: chances[i])
    found, most = [0.0] * len(chances), 0.0
    for place, i in enumerate(order):
        most = max(most, min(1.0, (len(chances) - place) * chances[i]))
        found[i] = most
    return found


def _ranks(values: Sequence[float] | Array) -> Array:
    _, place, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]


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
