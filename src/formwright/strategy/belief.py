"""How far short trials can be believed: do longer ones put the same models in the same order?

Models that were trained to several lengths are compared with themselves. Only those that went on
are in it, which are alike in being good, so the order of all models is told better than this says.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from statistics import fmean

from formwright.statistics import spearman, spearman_interval
from formwright.trial import FINAL_RUNG, Objective, Trial


@dataclass(frozen=True)
class StageBelief:
    """How well one rung foretells the order on a later one.

    Args:
        rung: The shorter training.
        other: The longer one; ``FINAL_RUNG`` for the finals.
        pairs: Models that had both.
        correlation: Of their ranks on the one and the other.
        low: From where, with 95 %, the correlation of all such models is ...
        high: ... to where.
    """

    rung: int
    other: int
    pairs: int
    correlation: float
    low: float
    high: float


def belief(trials: Iterable[Trial], objective: Objective) -> list[StageBelief]:
    """Every two rungs that two models or more have in common, short ones first.

    Several results of a model on one rung, such as finals with other seeds, count by their mean.
    """
    by_rung = _by_rung(list(trials), objective)
    found = []
    for rung, other in combinations(sorted(by_rung), 2):
        both = [model for model in by_rung[rung] if model in by_rung[other]]
        if len(both) < 2:
            continue
        short, long = ([by_rung[at][model] for model in both] for at in (rung, other))
        correlation = spearman(short, long)
        low, high = spearman_interval(correlation, len(both))
        found.append(StageBelief(rung, other, len(both), correlation, low, high))
    return found


def root_of(trial: Trial, known: Mapping[int, Trial]) -> int:
    """The number of the trial with which the training of a model began.

    What repeats, continues or is a final of an earlier trial is the same model.
    """
    while (earlier := _earlier(trial)) is not None:
        if earlier not in known:
            return earlier
        trial = known[earlier]
    return trial.number


def _earlier(trial: Trial) -> int | None:
    if trial.original is not None:
        return trial.original
    if trial.continues is not None:
        return trial.continues
    return trial.parents[0] if trial.final and trial.parents else None


def _by_rung(trials: Sequence[Trial], objective: Objective) -> dict[int, dict[int, float]]:
    """The value of each model on each rung."""
    known = {trial.number: trial for trial in trials}
    values: dict[int, dict[int, list[float]]] = {}
    for trial in trials:
        value = trial.values.get(objective.name)
        if trial.done and trial.original is None and value is not None and isfinite(value):
            models = values.setdefault(min(trial.rung, FINAL_RUNG), {})
            models.setdefault(root_of(trial, known), []).append(value)
    return {
        rung: {model: fmean(each) for model, each in models.items()}
        for rung, models in values.items()
    }
