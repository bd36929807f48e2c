"""Finals: what a search picked and its rivals, trained alike, before anything is announced.

The front, the headline and the model to take come from finals alone: every finalist and every rival
is trained from new weights, for the same number of steps, to a rate of zero, with its best weights
kept. ``recipes.headline`` says what they show.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from formwright.arch import notation
from formwright.estimate import Diverged, Estimator
from formwright.estimate.training import known_task
from formwright.recipes.rivals import Rival
from formwright.recipes.session import Session
from formwright.strategy.forecast import CAPACITY, Foresight
from formwright.study import Study
from formwright.study.front import eligible
from formwright.trial import FINAL, FINAL_RUNG, RIVAL, Objective, Proposal, Trial

Forecast = Callable[[Trial], tuple[float, ...]]  # costs at the end of a long training
_LEVEL = 0.03  # a difference between forecasts that says nothing, as a share of the best


def rival_proposal(rival: Rival, rung: int, steps: int | None) -> Proposal:
    """A hand-designed model as a trial of a rung."""
    return Proposal(
        decisions={"rival": notation(rival.arch)},
        origin=RIVAL,
        note=rival.name,
        rung=rung,
        steps=steps,
    )


def entered(trial: Trial, steps: int, round_: int) -> Proposal:
    """A trial of a search, or a rival, as one of the finals."""
    return Proposal(
        decisions=trial.decisions,
        origin=RIVAL if trial.rival else FINAL,
        note=trial.note if trial.rival else "",
        parents=(trial.number,),
        rung=FINAL_RUNG + round_,
        steps=steps,
    )


def as_rival(trial: Trial, known: Mapping[str, Rival]) -> Trial:
    """A trial; as the rival that it is where a search has tried a hand-designed model itself.

    Otherwise the search would announce as found what anyone would write by hand.

    Args:
        trial: Of a search.
        known: The rivals by their architecture.
    """
    rival = known.get(trial.arch or "")
    if rival is None or trial.rival:
        return trial
    decisions = {"rival": notation(rival.arch)}
    return replace(trial, origin=RIVAL, note=rival.name, decisions=decisions)


def capacity_for(task: str) -> float:
    """How much the number of parameters says of the end: of texts, which are never used up."""
    return 0.0 if known_task(task).higher_is_better else CAPACITY


# --- who enters -------------------------------------------------------------------------


def finalists(
    study: Study,
    most: int,
    foreseen: Forecast,
    bar: Sequence[float] | None = None,
    apart: Collection[str] = (),
) -> list[Trial]:
    """Members spread along the front that is to be expected, those worth most first.

    The cheapest that is expected to keep up with the best rival comes first, since it costs least
    to train and has most to show, then the best, then what lies between them. Under a limit, which
    says how cheap is cheap enough, the best comes first.

    Args:
        study: What was tried.
        most: How many.
        foreseen: Costs of a trial at the end of a long training.
        bar: The same of the best rival; None without one.
        apart: Architectures of rivals, besides those that were tried as such.
    """
    # who enter by themselves
    rivals = {*apart, *(trial.arch for trial in study.trials if trial.rival)}
    allowed = eligible(study.trials, study.objectives, study.rules.limits)
    found = [trial for trial in allowed if trial.arch not in rivals]
    pool = _furthest(found or allowed, most)
    if not pool:
        return []
    costs = np.array([foreseen(trial) for trial in pool])
    quality, cost = costs[:, 0], costs[:, -1]
    order = [int(i) for i in np.argsort(quality, kind="stable")]
    best = order[0]
    cheap = min(_keeping_up(quality, order, bar), key=lambda i: cost[i])
    chosen = [best, cheap] if study.rules.limits else [cheap, best]
    chosen = list(dict.fromkeys(chosen)) if cost[cheap] < cost[best] else [best]
    beaten_by_none = [i for i in order if not _beaten(i, costs)]
    between = [i for i in beaten_by_none if cost[cheap] < cost[i] < cost[best]]
    for i in [*_evenly(between, most - len(chosen)), *order]:
        if len(chosen) < most and i not in chosen:
            chosen.append(i)
    return [pool[i] for i in chosen[:most]]


def _keeping_up(quality: Any, order: Sequence[int], bar: Sequence[float] | None) -> Sequence[int]:
    """Members foreseen to be as good as the best rival; else about as good; else the best."""
    if bar is None:
        return order
    for leeway in (0.0, _LEVEL * abs(bar[0])):
        if good := [i for i in order if quality[i] <= bar[0] + leeway]:
            return good
    return order[:1]


def best_rivals(
    rivals: Sequence[Trial], most: int, foreseen: Forecast, quality: Objective
) -> list[Trial]:
    """The rivals that are expected to do best at the end; of those level, the best so far.

    Each as it was trained furthest; what is no rival is passed over.
    """
    tried = [trial for trial in rivals if trial.rival and trial.done and not trial.final]
    if not tried:
        return []
    done = list({t.decisions["rival"]: t for t in sorted(tried, key=_by_rung)}.values())
    done.sort(key=lambda trial: trial.number)
    ends = {trial.number: foreseen(trial)[0] for trial in done}
    best = min(ends.values())
    level = max(1e-9, _LEVEL * abs(best))

    def order(trial: Trial) -> tuple[float, float]:
        return (ends[trial.number] - best) // level, quality.sign * trial.values[quality.name]

    return sorted(done, key=order)[:most]


def _by_rung(trial: Trial) -> int:
    return trial.rung


def _furthest(trials: Sequence[Trial], most: int) -> list[Trial]:
    """Each architecture as it was trained furthest; of the last stages, if they hold enough."""
    by_arch: dict[Any, Trial] = {}
    for trial in trials:
        if not trial.final:
            known = by_arch.get(trial.arch or trial.key)
            if known is None or trial.rung > known.rung:
                by_arch[trial.arch or trial.key] = trial
    found = list(by_arch.values())
    for rung in sorted({trial.rung for trial in found}, reverse=True):
        far = [trial for trial in found if trial.rung >= rung]
        if len(far) >= most:
            return far
    return found


def _beaten(i: int, costs: Any) -> bool:
    others = np.delete(costs, i, axis=0)
    return bool(((others <= costs[i]).all(1) & (others < costs[i]).any(1)).any())


def _evenly(rows: Sequence[int], most: int) -> list[int]:
    """At most so many, spread over all."""
    if most < 1 or not rows:
        return []
    step = len(rows) / min(most, len(rows))
    return [rows[int(step * (k + 0.5))] for k in range(min(most, len(rows)))]


def prospects(
    trials: Sequence[Trial], objectives: Sequence[Objective], steps: int, capacity: float
) -> Forecast:
    """Costs of a trial as they are expected to be after so many steps.

    Args:
        trials: What was tried, rivals too; those trained to two lengths make lengths comparable.
        objectives: Quality first.
        steps: Of the finals.
        capacity: How much the number of parameters counts.
    """
    quality = objectives[0]
    foresight = Foresight(quality, steps, capacity).taught(trials)

    def foreseen(trial: Trial) -> tuple[float, ...]:
        return (quality.sign * foresight(trial), *trial.costs(objectives)[1:])

    return foreseen


# --- finals of recipes that pick models by themselves -----------------------------------


def train_finals(
    session: Session, trials: Sequence[Trial], estimator: Estimator
) -> dict[str, list[dict[str, Any]]]:
    """Evaluate each once more, in its own folder.

    A member whose training diverges is told beside the others, with the reason.

    Returns:
        ``models``: trial and values of each, those of the trial included; ``failed``: trial and
        reason.
    """
    models: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for trial in trials:
        try:
            values = session.evaluate(
                estimator,
                trial=replace(trial, rung=0),
                arch=session.study.member(trial),
                folder=session.study.trial_folder(trial.number),
                previous=None,
                seed=session.recipe.seed,
            )
        except Diverged as error:
            failed.append({"trial": trial.number, "reason": str(error)})
            session.say(f"trial {trial.number} is not ranked: {error}")
            continue
        models.append({"trial": trial.number, "loss": values["loss"], **dict(trial.values)})
    return {"models": models, "failed": failed}
