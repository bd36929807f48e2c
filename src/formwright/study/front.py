"""Which trials count, and which of them no other is better than in everything.

The rule: a trial counts when it is done, its objectives are finite and its values keep the limits.
Trials of different rungs had different training, so only those of one rung are compared: the
highest that has a quorum, ``QUORUM`` trials that count or as many as the front of the rung below.
Until then the rung below speaks for the study, so that the first promotion does not empty the
front.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from formwright.strategy.pareto import pareto_mask
from formwright.trial import Objective, Trial

QUORUM = 3


def front(
    trials: Sequence[Trial],
    objectives: Sequence[Objective],
    limits: Mapping[str, float] | None = None,
) -> list[Trial]:
    """The counting trials that no other dominates, by the first objective.

    Of several with the same architecture, the first.
    """
    return _front(counting(trials, objectives, limits or {}), objectives)


def counting(
    trials: Sequence[Trial], objectives: Sequence[Objective], limits: Mapping[str, float]
) -> list[Trial]:
    """The trials that are compared: see the head of this file."""
    by_rung: dict[int, list[Trial]] = {}
    for trial in eligible(trials, objectives, limits):
        by_rung.setdefault(trial.rung, []).append(trial)
    rungs = sorted(by_rung, reverse=True)
    for rung, below in pairwise(rungs):
        found = by_rung[rung]
        if len(found) >= QUORUM or len(found) >= len(_front(by_rung[below], objectives)):
            return found
    return by_rung[rungs[-1]] if rungs else []


def _front(trials: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
    first: dict[Any, Trial] = {}
    for trial in trials:
        first.setdefault(trial.arch or trial.key, trial)
    found = list(first.values())
    costs = np.array([trial.costs(objectives) for trial in found])
    return [found[i] for i in non_dominated(costs)] if found else []


def eligible(
    trials: Sequence[Trial], objectives: Sequence[Objective], limits: Mapping[str, float]
) -> list[Trial]:
    """Done trials whose objectives are finite and whose values keep the limits."""
    return [
        trial
        for trial in trials
        if trial.done
        and all(isfinite(trial.values.get(o.name, float("nan"))) for o in objectives)
        and all(trial.values.get(name, float("inf")) <= most for name, most in limits.items())
    ]


def non_dominated(costs: "np.ndarray[Any, np.dtype[np.float64]]") -> list[int]:
    """Rows than which no other is at least as good in all columns and better in one.

    In lexicographic order. Equal rows are all kept.
    """
    mask = pareto_mask(costs)
    return [int(i) for i in np.lexsort(costs.T[::-1]) if mask[i]]
