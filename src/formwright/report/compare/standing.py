"""How groups of runs stand at equal cost: means over seeds, intervals, and a test.

Every run is looked at when its trials have cost as much as those of the cheapest run. Groups are
held against the first by exchanging runs between the two (an exact permutation test, corrected for
several groups by Holm), so nothing is called better that as few seeds as these could not show.
"""

from collections.abc import Sequence
from math import isfinite, isnan
from typing import NamedTuple

import numpy as np

from formwright.report.compare.runs import Group, Run, Runs
from formwright.report.sections.progress import Array, Curve, grown
from formwright.report.words import duration, figure, plain_name, plural, share_words
from formwright.statistics import holm, mean_interval, permutation_test
from formwright.study.front import eligible

CERTAIN = 0.05  # chance of a false alarm that is put up with
_FREE = 1.0  # seconds below which trials are said to cost nothing


class Line(NamedTuple):
    """How one run got on: (trials so far, their seconds, value), wherever it got better."""

    run: Run
    best: list[tuple[int, float, float]]
    volume: Curve | None

    def at(self, cost: "Cost") -> float | None:
        """The best value when so much had been spent; None before the first."""
        known = [step[2] for step in self.best if step[1 if cost.timed else 0] <= cost.most]
        return known[-1] if known else None

    def volume_at(self, cost: "Cost") -> float | None:
        """The hypervolume then; None where it is not compared."""
        if self.volume is None:
            return None
        if cost.timed:
            return self.volume.at_cost(cost.most)
        return self.volume.at_trials(int(cost.most))


class Cost(NamedTuple):
    """At what cost runs are looked at: that of the cheapest."""

    most: float
    timed: bool  # in seconds of trials; else, where trials take next to nothing, in trials

    @property
    def words(self) -> str:
        """As people say it."""
        return f"{duration(self.most)} of trials" if self.timed else plural(int(self.most), "trial")


class Score(NamedTuple):
    """A value of a group: mean over runs, interval, and how it stands to the first group."""

    values: list[float]
    mean: float
    low: float  # NaN for one run
    high: float
    chance: float | None  # p, corrected; None for the first group and where nothing can be said
    verdict: str  # "better", "worse" or "" where it is not shown


class GroupScore(NamedTuple):
    """How a group stands."""

    group: Group
    best: Score | None
    volume: Score | None


class Standing(NamedTuple):
    """The whole comparison."""

    runs: Runs
    cost: Cost
    lines: list[Line]
    groups: list[GroupScore]
    words: list[str]  # what it comes to, a sentence each


def standing(runs: Runs) -> Standing:
    """Compare runs at equal cost, as far as they can be compared."""
    if runs.obstacles:
        told = [GroupScore(group, None, None) for group in runs.groups]
        return Standing(
            runs, Cost(0.0, True), [], told, ["These runs cannot be compared.", *runs.obstacles]
        )
    box = _box(runs) if runs.by_front else None
    lines = [_line(runs, run, box) for run in runs.runs]
    cost = _equal_cost([line.run for line in lines if line.best])
    by_run = {line.run.name: line for line in lines}
    sign = runs.quality.sign
    bests = _scores([[by_run[r.name].at(cost) for r in g.runs] for g in runs.groups], sign)
    volumes: list[Score | None] = [None] * len(runs.groups)
    if box is not None:
        found = [[by_run[r.name].volume_at(cost) for r in g.runs] for g in runs.groups]
        volumes = _scores(found, -1)
    groups = [
        GroupScore(group, best, volume)
        for group, best, volume in zip(runs.groups, bests, volumes, strict=True)
    ]
    words = _words(runs, groups, cost)
    late = [line.run.name for line in lines if line.at(cost) is None]
    if late and len(late) < len(lines):
        words.append(f"{', '.join(late)} had no result by then and is left out.")
    return Standing(runs, cost, lines, groups, words)


def _equal_cost(runs: Sequence[Run]) -> Cost:
    """The cost of the cheapest run, in trials where they take next to nothing."""
    seconds = min((run.seconds for run in runs), default=0.0)
    if seconds >= _FREE:
        return Cost(seconds, True)
    counts = [sum(not (t.final or t.rival) for t in run.material.trials) for run in runs]
    return Cost(float(min(counts, default=0)), False)


def _line(runs: Runs, run: Run, box: tuple[Array, Array] | None) -> Line:
    counted = {trial.number for trial in runs.counted(run)}
    trials = [trial for trial in run.material.trials if not trial.final and not trial.rival]
    name, sign = runs.quality.name, runs.quality.sign
    kept = {t.number for t in eligible(trials, (runs.quality,), run.material.limits)} & counted
    best: list[tuple[int, float, float]] = []
    spent = 0.0
    for place, trial in enumerate(trials, start=1):
        spent += trial.seconds
        value = trial.values.get(name, float("nan"))
        if trial.number in kept and (not best or sign * value < sign * best[-1][2]):
            best.append((place, spent, value))
    volume = None
    if box is not None and counted:
        goals = runs.objectives
        able = {t.number for t in eligible(trials, goals, run.material.limits)} & counted
        volume = grown(trials, able, goals, box)
    return Line(run, best, volume)


def _box(runs: Runs) -> tuple[Array, Array] | None:
    """Best costs of all runs together, and how far from them the worst are."""
    rows = [
        trial.costs(runs.objectives)
        for run in runs.runs
        for trial in eligible(runs.counted(run), runs.objectives, run.material.limits)
    ]
    if not rows:
        return None
    costs = np.array(rows)
    low, high = costs.min(axis=0), costs.max(axis=0)
    return low, np.where(high > low, high - low, 1.0)


def _scores(values: Sequence[Sequence[float | None]], sign: int) -> list[Score | None]:
    """A score for each group; ``sign`` times a value is to be small."""
    known = [[v for v in own if v is not None and isfinite(v)] for own in values]
    tests = [permutation_test(known[0], own)[0] if known[0] and own else None for own in known[1:]]
    raised = iter(holm([chance for chance in tests if chance is not None]))
    chances = [None, *(None if chance is None else next(raised) for chance in tests)]
    found: list[Score | None] = []
    for own, chance in zip(known, chances, strict=True):
        if not own:
            found.append(None)
            continue
        mean, low, high = mean_interval(own)
        verdict = ""
        if chance is not None and chance < CERTAIN:
            first = mean_interval(known[0])[0]
            verdict = "better" if sign * mean < sign * first else "worse"
        found.append(Score(list(own), mean, low, high, chance, verdict))
    return found


# --- words ------------------------------------------------------------------------------


def _words(runs: Runs, groups: Sequence[GroupScore], cost: Cost) -> list[str]:
    name = plain_name(runs.quality.name)
    found = []
    scored = [group for group in groups if group.best is not None]
    if not scored:
        return ["No run has a result that can be compared."]
    best = min(scored, key=lambda g: runs.quality.sign * _mean(g))
    after = f"after {cost.words} each"
    if len(scored) == 1:
        score = scored[0].best
        assert score is not None
        found.append(
            f"All {len(runs.runs)} runs are of one kind, {scored[0].group.name}: {after} they have "
            f"{name} {figure(score.mean)}{interval_words(score)}, "
            f"{plural(len(score.values), 'seed')}."
        )
        return found
    led = f"{best.group.name} has the best {name}: {figure(_mean(best))}"
    shown = any(group.best is not None and group.best.verdict for group in scored)
    if shown:
        found.append(f"At equal cost, {after}, {led}{interval_words(best.best)}.")
    else:
        found.append(f"No difference is shown between {len(scored)} groups at equal cost, {after}.")
        found.append(f"On average {led}{interval_words(best.best)}; that is no proof.")
    first = scored[0]
    for group in scored[1:]:
        found.append(_held_against(group, first, name))
    return found


def _mean(group: GroupScore) -> float:
    assert group.best is not None
    return group.best.mean


def _held_against(group: GroupScore, first: GroupScore, name: str) -> str:
    """One group against the first, in a sentence that claims no more than was shown."""
    ours, theirs = group.best, first.best
    assert ours is not None
    assert theirs is not None
    pair = f"{group.group.name} against {first.group.name}"
    seeds = f"{len(ours.values)} and {plural(len(theirs.values), 'seed')}"
    figures = f"{name} {figure(ours.mean)} and {figure(theirs.mean)}"
    _, least = permutation_test(theirs.values, ours.values)
    if least > CERTAIN:
        return (
            f"{pair}: {figures}. With {seeds} no difference, however clear, could be told from "
            f"chance (p is {least:.2f} at best): run more seeds."
        )
    assert ours.chance is not None
    chance = f"p {ours.chance:.3f}" if ours.chance >= 0.001 else "p under 0.001"
    if not ours.verdict:
        return f"{pair}: {figures}. That may be chance ({chance}, {seeds})."
    return f"{pair}: {figures}; it is {ours.verdict} ({chance}, {seeds})."


def interval_words(score: Score | None) -> str:
    """The interval in brackets; that there is none for one run."""
    if score is None:
        return ""
    if isnan(score.low):
        return " (one run, so no interval)"
    return f" (95 %: {figure(score.low)} to {figure(score.high)})"


def volume_words(score: Score | None) -> str:
    """A hypervolume as a share."""
    return "" if score is None else share_words(score.mean)
