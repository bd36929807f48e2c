"""How good guesses are: rank correlation, relative errors, and whether intervals hold."""

from dataclasses import dataclass

import numpy as np

from formwright.cost.regression import Array


@dataclass(frozen=True)
class Quality:
    """Of guesses at a number of measurements.

    Attributes:
        number: How many there were.
        tau: Kendall's rank correlation: 1 orders all pairs rightly, 0 is no better than chance.
        median: Median relative error.
        mean: Mean relative error.
        covered: Share of measurements within their intervals; None without intervals.
    """

    number: int
    tau: float
    median: float
    mean: float
    covered: float | None = None


def quality(guess: Array, truth: Array, interval: tuple[Array, Array] | None = None) -> Quality:
    """Compare guesses with what was measured."""
    errors = np.abs(guess / truth - 1)
    covered = None
    if interval is not None:
        covered = float(((interval[0] <= truth) & (truth <= interval[1])).mean())
    return Quality(
        len(truth), kendall(guess, truth), float(np.median(errors)), float(errors.mean()), covered
    )


def kendall(a: Array, b: Array) -> float:
    """Kendall's tau-b: right pairs minus wrong pairs over all, ties allowed for."""
    above = np.triu_indices(len(a), 1)
    first = np.sign(a[:, None] - a[None])[above]
    second = np.sign(b[:, None] - b[None])[above]
    untied = np.sqrt(np.abs(first).sum() * np.abs(second).sum())
    return float((first * second).sum() / untied) if untied else 0.0
