"""Where a training is going: what a short trial is expected to come to after a longer one.

What learns fastest at first is rarely what is best in the end. Of two models that are level after a
short training, the one that still learns faster and the one that holds more parameters will be
ahead later: with every further doubling of the steps the error falls by a fifth of the share that
the last doubling brought, and by a twentieth for every e-fold of parameters. The fifth is from
half of the curves of NAS-Bench-NLP (benchmarks/ladder.py, `--tune`), the twentieth from 24 curves
of our own, on which both together rank the ends (benchmarks/curves.py, `order`).
"""

from math import exp, log

from formwright.trial import Objective, Trial

PACE = 0.2  # what counts of the last doubling's gain, for each doubling that is left
CAPACITY = 0.05  # and of the logarithm of the parameters, where data are plenty
_SIZE = 1e5  # parameters that count as none: a constant for all models
_LEAST = 0.01  # of an error: no score is perfect


def forecast(trial: Trial, objective: Objective, target: int | None, capacity: float) -> float:
    """The value of an objective after ``target`` steps; as it is where nothing more is known.

    Args:
        trial: Done, with its steps; its ``slope`` (fall of the training loss per doubling),
            ``loss`` and ``decoder_params`` are made use of where they were measured.
        objective: A quality: a loss that is to be small, or a share that is to be large.
        target: Steps of the training that is forecast.
        capacity: How much the number of parameters counts.
    """
    value, values = trial.values[objective.name], trial.values
    if not trial.steps or not target or target <= trial.steps:
        return value
    doublings = log(target / trial.steps, 2)
    loss = max(1e-9, values.get("loss", 0.0))
    pace = max(0.0, values.get("slope", 0.0)) / loss if "loss" in values else 0.0
    size = log(max(1.0, values.get("decoder_params", _SIZE)) / _SIZE)
    less = exp(-doublings * (PACE * min(1.0, pace) + capacity * size))
    if objective.direction == "min":
        return value * less if value > 0 else value
    return 1 - max(_LEAST, 1 - value) * less if 0 <= value <= 1 else value
