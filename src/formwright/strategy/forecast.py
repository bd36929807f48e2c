"""Where a training is going: what a short trial is expected to come to after a longer one.

What learns fastest at first is rarely what is best in the end. Of two models that are level after a
short training, the one that still learns faster and the one that holds more parameters will be
ahead later: with every further doubling of the steps the error falls by a fifth of the share that
the last doubling brought, and by a twentieth for every e-fold of parameters. The fifth is from
half of the curves of NAS-Bench-NLP (benchmarks/ladder.py, `--tune`), the twentieth from 24 curves
of our own, on which both together rank the ends (benchmarks/curves.py, `order`).

These numbers are of other tasks, so forecasts from short trials may all be too low or too high.
Where trials of different lengths are compared, as those that may enter the finals are with their
rivals, ``Foresight`` takes from models that were trained to both by how much. (For proposals it was
no gain: benchmarks/ladder.py, docs/log.md.)
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, isfinite, log
from statistics import median
from typing import Self

from formwright.trial import Objective, Trial

PACE = 0.2  # what counts of the last doubling's gain, for each doubling that is left
CAPACITY = 0.05  # and of the logarithm of the parameters, where data are plenty
REACH = 1.05  # an expected error, as a share of the best hand-designed model's, that keeps up
_SIZE = 1e5  # parameters that count as none: a constant for all models
_LEAST = 0.01  # of an error: no score is perfect
_DOUBT = 1.0  # pairs of trials that speak for forecasts as they are


def forecast(trial: Trial, objective: Objective, target: float | None, capacity: float) -> float:
    """The value of an objective after a longer training; as it is where nothing more is known.

    Args:
        trial: Done, with its steps or seconds; its ``slope`` (fall of the training loss per
            doubling), ``loss`` and ``decoder_params`` are made use of where they were measured.
        objective: A quality: a loss that is to be small, or a share that is to be large.
        target: Steps of the training that is forecast, or seconds where the trial has seconds.
        capacity: How much the number of parameters counts.
    """
    value, values = trial.values[objective.name], trial.values
    length = trial.steps or trial.train_seconds
    if not length or not target or target <= length:
        return value
    doublings = log(target / length, 2)
    loss = max(1e-9, values.get("loss", 0.0))
    pace = max(0.0, values.get("slope", 0.0)) / loss if "loss" in values else 0.0
    size = log(max(1.0, values.get("decoder_params", _SIZE)) / _SIZE)
    less = exp(-doublings * (PACE * min(1.0, pace) + capacity * size))
    if objective.direction == "min":
        return value * less if value > 0 else value
    return 1 - max(_LEAST, 1 - value) * less if 0 <= value <= 1 else value


@dataclass(frozen=True)
class Foresight:
    """What trials are expected to come to, by what those trained twice have taught.

    Args:
        objective: A quality.
        target: Steps of the training that is forecast.
        capacity: How much the number of parameters counts.
        missed: Steps of a training to what forecasts from there miss: the logarithm of a factor of
            the error.
    """

    objective: Objective
    target: int | None
    capacity: float
    missed: Mapping[int, float] = field(default_factory=dict)

    def __call__(self, trial: Trial) -> float:
        """The value of the objective at the end."""
        error = self.error(trial)
        if error is None:
            return forecast(trial, self.objective, self.target, self.capacity)
        return error if self.objective.direction == "min" else 1 - error

    def error(self, trial: Trial) -> float | None:
        """What is left to learn at the end; None for values that no error can be told of."""
        error = self._error(forecast(trial, self.objective, self.target, self.capacity))
        return error and error * exp(self.missed.get(trial.steps or 0, 0.0))

    def taught(self, trials: Iterable[Trial]) -> Self:
        """The same, with what is missed taken from models that were trained to two lengths."""
        models: dict[object, dict[int, float]] = {}
        for trial in trials:
            value = trial.values.get(self.objective.name)
            if trial.done and not trial.final and trial.steps and value is not None:
                found = self._error(forecast(trial, self.objective, self.target, self.capacity))
                if found is not None and isfinite(found):
                    models.setdefault(trial.arch or trial.key, {})[trial.steps] = log(found)
        lengths = sorted({steps for errors in models.values() for steps in errors})
        missed: dict[int, float] = {}
        for short, long in reversed([*pairwise(lengths)]):
            both = [errors for errors in models.values() if short in errors and long in errors]
            seen = median([errors[long] - errors[short] for errors in both]) if both else 0.0
            trusted = len(both) / (len(both) + _DOUBT)
            missed[short] = missed.get(long, 0.0) + trusted * seen
        return type(self)(self.objective, self.target, self.capacity, missed)

    def _error(self, value: float) -> float | None:
        """What is left to learn at a value."""
        if self.objective.direction == "min":
            return value if value > 0 else None
        return max(_LEAST, 1 - value) if 0 <= value <= 1 else None
