"""Which trials count, and which of them no other is better than in everything.

The rule: a trial counts when it is done, no hand-designed rival, its objectives are finite and the
upper ends of its values keep the limits. Trials of different rungs had different training, so only
those of one rung are compared: the newest finals, once all of them have ended; without finals the
highest rung that has a quorum, ``QUORUM`` trials that count or as many as the front of the rung
below. Until then the rung below speaks for the study, so that the first promotion does not empty
the front.

Ties are ties: where values carry intervals, a trial that another one clearly beats in something,
and nowhere clearly beats itself, is not on the front, however little cheaper it came out.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from formwright.strategy.pareto import pareto_mask
from formwright.trial import FINAL_RUNG, Objective, Trial

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
    under_way = {trial.rung for trial in trials if trial.final and not trial.finished}
    for trial in eligible(trials, objectives, limits):
        if trial.rung not in under_way:
            by_rung.setdefault(trial.rung, []).append(trial)
    if by_rung and (last := max(by_rung)) >= FINAL_RUNG:
        return by_rung[last]
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
    best = [found[i] for i in non_dominated(costs)] if found else []
    return [t for t in best if not any(clearly_beats(other, t, objectives) for other in best)]


def clearly_beats(ours: Trial, theirs: Trial, objectives: Sequence[Objective]) -> bool:
    """Whether one is better in something by more than the intervals, and worse in nothing so.

    Exact values are told apart by dominance; here at least one interval must have a width.
    """
    better = worse = tied = False
    for objective in objectives:
        (a, b), (c, d) = ours.interval(objective.name), theirs.interval(objective.name)
        if objective.sign < 0:
            (a, b), (c, d) = (-b, -a), (-d, -c)
        better, worse, tied = better or b < c, worse or d < a, tied or (b >= c and d >= a)
    return better and tied and not worse


def eligible(
    trials: Sequence[Trial], objectives: Sequence[Objective], limits: Mapping[str, float]
) -> list[Trial]:
    """Done trials whose objectives are finite and whose values keep the limits."""
    return [
        trial
        for trial in trials
        if trial.done
        and not trial.rival
        and all(isfinite(trial.values.get(o.name, float("nan"))) for o in objectives)
        and all(
            name in trial.values and trial.interval(name)[1] <= most
            for name, most in limits.items()
        )
    ]


def non_dominated(costs: "np.ndarray[Any, np.dtype[np.float64]]") -> list[int]:
    """Rows than which no other is at least as good in all columns and better in one.

    In lexicographic order. Equal rows are all kept.
    """
    mask = pareto_mask(costs)
    return [int(i) for i in np.lexsort(costs.T[::-1]) if mask[i]]
