"""The best of the finished trials: those that no other is better than in everything."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import numpy as np

from formwright.strategy.pareto import pareto_mask
from formwright.trial import Objective, Trial


def front(
    trials: Sequence[Trial],
    objectives: Sequence[Objective],
    limits: Mapping[str, float] | None = None,
) -> list[Trial]:
    """Trials that are not dominated, by the first objective.

    Only done trials at the highest rung count, with finite values within the limits; of several
    with the same architecture, the first.
    """
    done = eligible(trials, objectives, limits or {})
    top = max((trial.rung for trial in done), default=0)
    seen: set[Any] = set()
    kept = []
    for trial in done:
        key = trial.arch or tuple(trial.decisions.items())
        if trial.rung == top and key not in seen:
            seen.add(key)
            kept.append(trial)
    if not kept:
        return []
    costs = np.array([trial.costs(objectives) for trial in kept])
    return [kept[i] for i in non_dominated(costs)]


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
