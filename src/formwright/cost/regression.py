"""The two regressions of a latency predictor: a robust weighed sum, and a smooth correction."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]

_ROUNDS = 8  # of reweighing
_LEAST = 1e-9  # a time below this share of the usual is no time
_LONGEST = 500  # samples a correction holds; more would make files large and answers slow
_TRIED = 250  # samples on which its scale is chosen
_REACHES = (0.5, 1.0, 2.0, 4.0, 8.0)  # of likeness, in typical distances
_SHARES = (0.03, 0.1, 0.3, 1.0, 3.0)  # of what is smooth, over what is noise


@dataclass(frozen=True)
class Terms:
    """A weighed sum of terms.

    Attributes:
        weights: One per term.
        shape: Maps a row, over its own value, to how uncertain its value is; spread included.
        noise: Spread of a log ratio that no weights could explain.
        usual: The typical value; sums that are not positive are lifted to a fraction of it.
    """

    weights: Array
    shape: Array
    noise: float
    usual: float

    def value(self, rows: Array) -> Array:
        """The sum of each row."""
        return np.maximum(rows @ self.weights, 1e-3 * self.usual)

    def spread(self, rows: Array) -> Array:
        """Standard deviation of the logarithm, of a new measurement of each row."""
        relative = (rows / self.value(rows)[:, None]) @ self.shape
        return self.noise * np.sqrt(1 + (relative**2).sum(axis=1))

    def to_data(self) -> dict[str, Any]:
        """Plain lists."""
        return {
            "weights": self.weights.tolist(),
            "shape": self.shape.tolist(),
            "noise": self.noise,
            "usual": self.usual,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any], columns: int) -> "Terms":
        """The inverse; raises ``ValueError`` when sizes or numbers are wrong."""
        weights = checked(data["weights"], (columns,))
        shape = checked(data["shape"], (columns, None))
        return cls(weights, shape, finite(data["noise"]), finite(data["usual"]))


@dataclass(frozen=True)
class Correction:
    """A Gaussian process over the logarithms of terms.

    Attributes:
        scale: What a term is measured in before its logarithm.
        middle: Mean of each logarithm.
        width: What its deviation is measured in; zero for a column that says nothing.
        points: The samples, so measured.
        answers: Weight of each sample's likeness.
        root: Inverse Cholesky factor, for the spread.
        share: What is smooth over what is noise, as variances.
        noise: Spread of the noise.
        mean: What is answered far from all samples.
    """

    scale: Array
    middle: Array
    width: Array
    points: Array
    answers: Array
    root: Array
    share: float
    noise: float
    mean: float

    def __call__(self, rows: Array) -> tuple[Array, Array]:
        """The shift of each row's logarithm, and the spread of a new measurement."""
        alike = self.share * likeness(self._placed(rows), self.points)
        known = (alike @ self.root.T) ** 2
        left = np.maximum(self.share - known.sum(axis=1), 0.0)
        return self.mean + alike @ self.answers, self.noise * np.sqrt(1 + left)

    def _placed(self, rows: Array) -> Array:
        return (np.log1p(np.abs(rows) / self.scale) - self.middle) * self.width

    def to_data(self) -> dict[str, Any]:
        """Plain lists. The factor is made again when it is read."""
        return {
            name: np.round(value, 7).tolist() if name == "points" else value.tolist()
            for name in ("scale", "middle", "width", "points", "answers")
            for value in (getattr(self, name),)
        } | {"share": self.share, "noise": self.noise, "mean": self.mean}

    @classmethod
    def from_data(cls, data: Mapping[str, Any], columns: int) -> "Correction":
        """The inverse; raises ``ValueError`` when sizes or numbers are wrong."""
        scale, middle, width = (
            checked(data[name], (columns,)) for name in ("scale", "middle", "width")
        )
        points = checked(data["points"], (None, columns))
        answers = checked(data["answers"], (len(points),))
        share, noise, mean = (finite(data[name]) for name in ("share", "noise", "mean"))
        root = _root(points, share)
        return cls(scale, middle, width, points, answers, root, share, noise, mean)


def fit_terms(rows: Array, values: Array, *, positive: bool, penalty: float) -> Terms:
    """Weights of least relative error, far residuals counting less.

    Args:
        rows: One row of terms per sample.
        values: What was measured.
        positive: Whether weights may not be negative.
        penalty: Of the size of weights, relative to what the terms explain.
    """
    scale = np.abs(rows / values[:, None]).mean(axis=0)
    used = scale > 0
    scale = np.where(used, scale, 1.0)
    relative = rows / values[:, None] / scale * used  # a perfect fit sums to one in every row
    trust, weights = np.ones(len(values)), np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        gram = (relative * trust[:, None]).T @ relative
        gram[np.diag_indices_from(gram)] += penalty * len(values) * trust.mean()
        right = relative.T @ trust
        weights = _non_negative(gram, right) if positive else np.linalg.solve(gram, right)
        left = np.abs(relative @ weights - 1)
        middle = max(float(np.median(left)), _LEAST)
        trust = 1 / np.maximum(left, 0.5 * middle) * middle  # least absolute error, in the end
    left = np.log(values) - np.log(np.maximum(rows @ (weights / scale), 1e-3 * values))
    free = max(1, len(values) - int((np.abs(weights) > 1e-9).sum()))
    noise = max(float(np.abs(left).mean()) * 1.25 * math.sqrt(len(values) / free), 1e-6)
    active = (np.abs(weights) > 1e-9) if positive else used
    usual = float(np.exp(np.log(values).mean()))
    return Terms(weights / scale, _shape(gram, active) / scale[:, None], noise, usual)


def _shape(gram: Array, active: Mask) -> Array:
    """The inverse root of the information about the weights in use."""
    found = np.zeros_like(gram)
    inner = np.ix_(active, active)
    worth, axes = np.linalg.eigh(gram[inner])
    found[inner] = axes / np.sqrt(np.maximum(worth, 1e-12 * worth.max(initial=1.0)))
    return found


def _non_negative(gram: Array, right: Array) -> Array:
    """Least squares without negative weights, by active sets (Lawson and Hanson 1974, ch. 23)."""
    size = len(right)
    weights, active = np.zeros(size), np.zeros(size, dtype=bool)
    for _ in range(3 * size):
        pull = right - gram @ weights
        pull[active] = -np.inf
        best = int(np.argmax(pull))
        if pull[best] <= 1e-9 * (1 + abs(right[best])):
            break
        active[best] = True
        while True:
            wanted = np.zeros(size)
            wanted[active] = np.linalg.solve(gram[np.ix_(active, active)], right[active])
            below = active & (wanted <= 0)
            if not below.any():
                weights = wanted
                break
            # go as far towards it as no weight becomes negative, and let go of the first that would
            share = (weights[below] / (weights[below] - wanted[below])).min()
            weights = weights + share * (wanted - weights)
            active &= weights > 1e-12
            weights[~active] = 0.0
    return weights


def fit_correction(rows: Array, left: Array) -> Correction:
    """Smooth what is left of the logarithms, by the scale under which it is likeliest."""
    if len(rows) > _LONGEST:
        chosen = np.random.default_rng(0).permutation(len(rows))[:_LONGEST]
        rows, left = rows[chosen], left[chosen]
    scale = np.abs(rows).mean(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    logs = np.log1p(np.abs(rows) / scale)
    middle, deviation = logs.mean(axis=0), logs.std(axis=0)
    varies = deviation > 1e-9
    width = np.where(varies, 1 / np.where(varies, deviation, 1.0), 0.0)
    width /= math.sqrt(max(1, int(varies.sum())))  # typical points are about one apart
    points, mean = (logs - middle) * width, float(np.median(left))
    reach, share, noise = _likeliest(points[:_TRIED], left[:_TRIED] - mean)
    points, width = points / reach, width / reach
    root = _root(points, share)
    answers = root.T @ (root @ (left - mean))
    return Correction(scale, middle, width, points, answers, root, share, noise, mean)


def _likeliest(points: Array, left: Array) -> tuple[float, float, float]:
    """Reach of likeness, share of the smooth part, and noise."""
    best, found = -math.inf, (1.0, 0.0, max(float(left.std()), 1e-9))
    number = len(left)
    for reach in _REACHES:
        worth, axes = np.linalg.eigh(likeness(points / reach, points / reach))
        turned = (axes.T @ left) ** 2
        for share in _SHARES:
            total = np.maximum(share * worth, 0.0) + 1
            noise = max(float((turned / total).mean()), 1e-18)
            likely = -0.5 * number * math.log(noise) - 0.5 * float(np.log(total).sum())
            if likely > best:
                best, found = likely, (reach, share, math.sqrt(noise))
    return found


def likeness(a: Array, b: Array) -> Array:
    """1 for equal points, 0 for distant ones, with one bend but no kinks (Matern 5/2)."""
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None] - 2 * a @ b.T
    apart = np.sqrt(5 * np.maximum(squares, 0.0))
    return (1 + apart + apart**2 / 3) * np.exp(-apart)


def _root(points: Array, share: float) -> Array:
    matrix = share * likeness(points, points) + np.eye(len(points))
    return np.linalg.inv(np.linalg.cholesky(matrix))


def finite(value: Any) -> float:
    """A number that is one."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("a number in it is not finite")
    return number


def checked(value: Any, shape: tuple[int | None, ...]) -> Array:
    """An array of finite numbers of that shape; None stands for any size."""
    found = np.asarray(value, dtype=np.float64)
    fits = found.ndim == len(shape) and all(
        size is None or size == given for size, given in zip(shape, found.shape, strict=True)
    )
    if not fits or not np.isfinite(found).all():
        raise ValueError(f"a list in it has the shape {found.shape}, not {shape}")
    return found
