"""Latency learned from measured samples: weighed physical terms, a correction, an interval.

1. Terms. A time is a sum of terms (``cost.features``) with weights that are found by least squares
   of the *relative* error, since 1 ms means more to a fast model than to a slow one; residuals
   beyond the usual count less, so that a disturbed measurement does not bend the fit. Weights are
   either non-negative, as times are, or free with a small penalty: cross-validation decides.
2. Correction. What is left, as a log ratio, is smoothed over similar architectures by a Gaussian
   process. It is kept only where cross-validation shows that it helps.
3. Interval. Residuals of rows that were left out, over the spread the model claims for them, say
   how wide an interval must be to hold 90 % of new measurements (conformal prediction,
   https://arxiv.org/abs/1604.04173).

A fitted predictor is plain numbers: JSON in and out, no library but numpy.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from formwright.cost.regression import Array, Correction, Terms, fit_correction, fit_terms
from formwright.errors import FormatError, InputError

PREDICTOR_VERSION = 1  # raised on any change that an older reader could not load
_FOLDS = 5
_FEWEST = 4  # samples below which nothing is learned
_FOR_CORRECTION = 24  # samples from which a correction is tried
_WORTH = 0.98  # of the error without it: above this a correction is not worth its numbers
_WIDEST = 20.0  # of an interval, in logarithms: beyond it nothing is known, and numbers overflow
_COVERAGE = 0.9
_STYLES: tuple[tuple[bool, float], ...] = (  # (non-negative, penalty)
    (True, 1e-6),
    (False, 1e-6),
    (False, 1e-4),
    (False, 1e-2),
)


class Prediction(NamedTuple):
    """What a predictor says of several architectures, each with its 90 % interval."""

    mean: Array
    low: Array
    high: Array


@dataclass(frozen=True)
class Predictor:
    """A fitted predictor.

    Attributes:
        columns: Names of the terms it reads, in order.
        terms: The weighed sum.
        correction: What is added to the logarithm; None where it did not help.
        reach: How many claimed spreads the interval is wide, on either side.
        samples: How many it was fitted to.
        error: Mean relative error on samples that were left out in turn.
    """

    columns: tuple[str, ...]
    terms: Terms
    correction: Correction | None
    reach: float
    samples: int
    error: float

    @classmethod
    def fit(
        cls, rows: Array, values: Array | Sequence[float], columns: Sequence[str] = ()
    ) -> "Predictor":
        """Learn from rows of terms and what was measured for each.

        Args:
            rows: One row of terms per sample; a column that never varies is welcome.
            values: Positive measurements, in any unit.
            columns: Names of the terms; numbered when not given.
        """
        rows, values = np.asarray(rows, dtype=np.float64), np.asarray(values, dtype=np.float64)
        names = tuple(columns) or tuple(f"x{i}" for i in range(rows.shape[-1]))
        _check(rows, values, names)
        style = min(_STYLES, key=lambda style: _error(*_crossed(rows, values, style, False)))
        guess, spread = _crossed(rows, values, style, False)
        correct = False
        if len(values) >= _FOR_CORRECTION:
            better, wider = _crossed(rows, values, style, True)
            correct = _error(better, wider) < _WORTH * _error(guess, spread)
            guess, spread = (better, wider) if correct else (guess, spread)
        terms, correction = _both(rows, values, style, correct)
        return cls(
            columns=names,
            terms=terms,
            correction=correction,
            reach=_reach(np.abs(guess) / spread),
            samples=len(values),
            error=_error(guess, spread),
        )

    def predict(self, rows: Array) -> Prediction:
        """The expected measurement of each row of terms, with its interval."""
        rows = np.asarray(rows, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise InputError(
                f"Rows of shape {rows.shape} cannot be predicted from; this predictor reads "
                f"{len(self.columns)} terms in each."
            )
        mean, spread = _guessed(rows, self.terms, self.correction)
        factor = np.exp(np.minimum(self.reach * spread, _WIDEST))
        return Prediction(mean, mean / factor, mean * factor)

    def variance(self, rows: Array) -> Array:
        """How little is known of each row, for choosing what to measure next."""
        return _guessed(np.asarray(rows, dtype=np.float64), self.terms, self.correction)[1] ** 2

    def to_data(self) -> dict[str, Any]:
        """Plain numbers, lists and words."""
        return {
            "formwright_predictor": PREDICTOR_VERSION,
            "columns": list(self.columns),
            "terms": self.terms.to_data(),
            "correction": self.correction.to_data() if self.correction else None,
            "reach": self.reach,
            "samples": self.samples,
            "error": self.error,
        }

    @classmethod
    def from_data(cls, data: Any) -> "Predictor":
        """The inverse of ``to_data``; anything else raises ``FormatError``."""
        if not isinstance(data, Mapping) or data.get("formwright_predictor") != PREDICTOR_VERSION:
            raise FormatError(
                f"This is not a predictor of version {PREDICTOR_VERSION}: the key "
                '"formwright_predictor" is missing or another.'
            )
        try:
            columns = tuple(str(name) for name in data["columns"])
            terms = Terms.from_data(data["terms"], len(columns))
            stored = data["correction"]
            correction = None if stored is None else Correction.from_data(stored, len(columns))
            numbers = (float(data["reach"]), int(data["samples"]), float(data["error"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"This predictor is damaged: {error}.") from None
        if not all(math.isfinite(number) for number in numbers):
            raise FormatError("This predictor is damaged: a number in it is not finite.")
        return cls(columns, terms, correction, *numbers)


def _check(rows: Array, values: Array, names: tuple[str, ...]) -> None:
    if rows.ndim != 2 or values.shape != (len(rows),) or len(names) != rows.shape[1]:
        raise InputError(
            f"Rows of shape {rows.shape}, values of shape {values.shape} and {len(names)} names do "
            "not go together; give one value per row and one name per column."
        )
    if len(values) < _FEWEST:
        raise InputError(
            f"{len(values)} samples are too few to learn from; measure at least {_FEWEST}."
        )
    if not (np.isfinite(rows).all() and np.isfinite(values).all() and (values > 0).all()):
        raise InputError("Samples must be finite, and what was measured must be above zero.")


def _both(
    rows: Array, values: Array, style: tuple[bool, float], correct: bool
) -> tuple[Terms, Correction | None]:
    positive, penalty = style
    terms = fit_terms(rows, values, positive=positive, penalty=penalty)
    if not correct:
        return terms, None
    left = np.log(values) - np.log(terms.value(rows))
    return terms, fit_correction(rows, left)


def _guessed(rows: Array, terms: Terms, correction: Correction | None) -> tuple[Array, Array]:
    """The expected value, and the spread of its logarithm that the model claims."""
    mean, spread = terms.value(rows), terms.spread(rows)
    if correction is None:
        return mean, spread
    shift, doubt = correction(rows)
    return mean * np.exp(shift), doubt


def _crossed(
    rows: Array, values: Array, style: tuple[bool, float], correct: bool
) -> tuple[Array, Array]:
    """Log ratio of each value to what a predictor says that has not seen it, and its spread."""
    left, spread = np.zeros(len(values)), np.ones(len(values))
    order = np.random.default_rng(0).permutation(len(values))  # the same rows, the same predictor
    for out in np.array_split(order, min(_FOLDS, len(values))):
        rest = np.setdiff1d(np.arange(len(values)), out)
        mean, spread[out] = _guessed(rows[out], *_both(rows[rest], values[rest], style, correct))
        left[out] = np.log(values[out]) - np.log(mean)
    return left, spread


def _error(left: Array, spread: Array) -> float:
    """Mean relative error, from log ratios of the measured to the expected."""
    return float(np.abs(np.expm1(-left)).mean())


def _reach(scores: Array) -> float:
    """The conformal quantile: as large as all but a tenth of the left-out scores."""
    rank = min(len(scores), math.ceil(_COVERAGE * (len(scores) + 1)))
    return float(np.sort(scores)[rank - 1])
