"""How the search got on: the hypervolume it covers, against random search at equal cost.

The random control is part of the study; each of the two is drawn over its own cost. Values are
first scaled so that the best and the worst of all trials are 0 and 1, and the worst is the
reference, so the hypervolume is a share of the box between them. It is exact for one and two
objectives; for more it is the share of a fixed set of points in the box that is dominated.

The strategy ``ladder`` holds members against the hand-designed ones that it begins with, and this
does too: what is expected to end behind the best of them covers nothing, however cheap it is, and
they themselves are not counted as found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from formwright.report.chart import (
    SHEETS,
    Chart,
    Scale,
    Sheet,
    figure_html,
    legend,
    scale_of,
    stairs,
)
from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import duration, plural, share_words
from formwright.strategy.blackbox.ladder import Ladder
from formwright.strategy.forecast import REACH, forecast
from formwright.strategy.pareto import hypervolume
from formwright.study.front import eligible
from formwright.trial import APART, RANDOM, SEED, Objective, Trial

Array = np.ndarray[Any, np.dtype[np.float64]]

_PROBES = 8192  # points in the box, for three objectives and more
_CHUNK = 256  # trials looked at together
_FEW = 2  # trials below which there is nothing to compare


class Step(NamedTuple):
    """The hypervolume after a trial that raised it."""

    trials: int  # trials of its kind so far
    seconds: float  # and what they cost
    volume: float


class Curve(NamedTuple):
    """How the hypervolume grew."""

    steps: list[Step]
    trials: int  # in all
    seconds: float

    def at_cost(self, seconds: float) -> float:
        """The hypervolume when so much had been spent."""
        return max((s.volume for s in self.steps if s.seconds <= seconds), default=0.0)

    def at_trials(self, trials: int) -> float:
        """The hypervolume after so many trials."""
        return max((s.volume for s in self.steps if s.trials <= trials), default=0.0)


class ProgressInfo(NamedTuple):
    """The search and its random control."""

    found: Curve
    random: Curve | None
    alone: bool  # whether there is one objective only
    barred: bool = False  # whether only what keeps up with hand-designed members counts

    @property
    def box(self) -> str:
        """What the shares are of, in words."""
        worst = "what just keeps up with the hand-designed models" if self.barred else "the worst"
        if self.alone:
            return f"of the way from {worst} to the best value"
        return f"of the box between {worst} and the best values"


def progress_info(material: Material) -> ProgressInfo | None:
    """Both curves; None where nothing has a result."""
    trials = [_expected(material, trial) for trial in material.trials if not trial.final]
    done = eligible(trials, material.objectives, material.limits)
    if not done:
        return None
    rung = _common_rung(done)
    counted = [trial for trial in done if trial.rung == rung]
    costs = np.array([trial.costs(material.objectives) for trial in counted])
    low, high = costs.min(axis=0), costs.max(axis=0)
    bar = _bar(material, counted)
    if bar is not None:
        high[0] = min(high[0], bar)
    box = low, np.where(high > low, high - low, 1.0)
    counting = {trial.number for trial in counted}
    staged = [trial for trial in trials if trial.rung == rung and not trial.rival]
    if bar is not None:
        staged = [trial for trial in staged if trial.origin != SEED]
    apart = [trial for trial in staged if trial.details.get(APART)]
    controls = apart or [trial for trial in staged if drawn_evenly(trial)]
    others = [trial for trial in staged if not trial.control]
    compared = len(controls) >= _FEW and bool(others)
    random = grown(controls, counting, material.objectives, box) if compared else None
    found = grown(others or controls, counting, material.objectives, box)
    return ProgressInfo(found, random, len(material.objectives) == 1, bar is not None)


def _bar(material: Material, trials: Sequence[Trial]) -> float | None:
    """The cost, in quality, of what just keeps up with the best hand-designed member.

    None where the strategy did not hold members against them, or tried nothing else.
    """
    quality = material.objectives[0]
    byhand = [trial.values[quality.name] for trial in trials if trial.origin == SEED]
    tried = any(not trial.rival and trial.origin != SEED for trial in trials)
    if material.meta["strategy"]["name"] != Ladder.NAME or not byhand or not tried:
        return None
    best = quality.sign * min(quality.sign * value for value in byhand)
    if quality.direction == "min":
        return best * REACH if best > 0 else None
    return -(1 - (1 - best) * REACH) if 0 <= best <= 1 else None


def _expected(material: Material, trial: Trial) -> Trial:
    """A trial of a search that ends in finals, with the quality that it is expected to end with."""
    plans, quality = material.phase("plans"), material.objectives[0]
    plan = plans[-1] if isinstance(plans, list) and plans and isinstance(plans[-1], dict) else {}
    steps, capacity = plan.get("steps"), plan.get("capacity", 0.0)
    known = type(steps) is int and steps > 0 and isinstance(capacity, int | float)
    if not known or not trial.done or quality.name not in trial.values:
        return trial
    end = forecast(trial, quality, steps, capacity)
    return replace(trial, values={**trial.values, quality.name: end})


def drawn_evenly(trial: Trial) -> bool:
    """Whether random search could have tried it: the control, and what a strategy begins with."""
    return trial.control or trial.origin == RANDOM


def _common_rung(done: Sequence[Trial]) -> int:
    """The highest stage that random trials reached too: only like can be compared with like."""
    rungs = [trial.rung for trial in done]
    evenly = [trial.rung for trial in done if drawn_evenly(trial)]
    return max((r for r in set(evenly) if evenly.count(r) >= _FEW), default=max(rungs))


def progress_svg(info: ProgressInfo, sheet: Sheet, over: str) -> Safe:
    """The chart; ``over``: ``seconds`` or ``trials``."""
    curves = [("front", info.found), *([("random", info.random)] if info.random else [])]
    ends = [getattr(curve, over) for _, curve in curves]
    top = max(s.volume for _, curve in curves for s in curve.steps)
    x = scale_of([0.0, max(ends) or 1.0])
    chart = Chart(sheet, x, Scale(0.0, max(top * 1.05, 1e-9)))
    for (cls, curve), end in reversed(list(zip(curves, ends, strict=True))):
        points = [(getattr(step, over), step.volume) for step in curve.steps]
        chart.line(stairs([(0.0, 0.0), *points], end), cls)
    label = "seconds of evaluation" if over == "seconds" else "trials"
    height = "best so far (share)" if info.alone else "hypervolume (share)"
    return chart.svg((label, height), f"{height} over {label}.")


@section("progress", "Progress")
def progress_html(material: Material) -> Safe | None:
    """The section; none where trials were given to be compared, whose order says nothing."""
    info = progress_info(material)
    given = material.meta["strategy"]["name"] == "given"
    if given or info is None or not info.found.steps:
        return None
    drawn = [
        figure_html(f"over {word}", [progress_svg(info, sheet, over) for sheet in _SHEETS])
        for over, word in (("seconds", "cost"), ("trials", "trials"))
    ]
    keys = legend(
        ("front line", "search"), ("random line", "random control") if info.random else None
    )
    said = tag("p", progress_words(info))
    return joined([said, tag("div", drawn, class_="twin"), keys])


def progress_words(info: ProgressInfo) -> str:
    """Search and random search at equal cost, in words."""
    if info.found.trials < _FEW:
        return "One trial reached the last stage, with nothing to compare it with."
    verb, what = "gets" if info.alone else "covers", info.box
    end = info.found.at_cost(info.found.seconds)
    whole = f"The search {verb} {share_words(end)} {what}, in {duration(info.found.seconds)}"
    if info.random is None:
        return f"{whole}. The study carries no random control to compare with."
    cost = min(info.random.seconds, info.found.seconds)
    mine, other = info.found.at_cost(cost), info.random.at_cost(cost)
    count = plural(info.random.trials, "trial")
    return (
        f"{whole}. At equal cost, {duration(cost)}, it {verb} {share_words(mine)} and its random "
        f"control ({count}) {share_words(other)}."
    )


def grown(
    trials: Sequence[Trial],
    counting: set[int],
    objectives: Sequence[Objective],
    box: tuple[Array, Array],
) -> Curve:
    """How the hypervolume of some trials grew.

    Args:
        trials: In their order; all of them cost.
        counting: Numbers of those that count.
        objectives: What is to be small or large.
        box: Best costs, and how far from them the worst are.
    """
    spent = np.cumsum([trial.seconds for trial in trials])
    places = [i for i, trial in enumerate(trials) if trial.number in counting]
    rows = [trials[i].costs(objectives) for i in places]
    costs = (np.array(rows).reshape(-1, len(objectives)) - box[0]) / box[1]
    grow = _exact if len(objectives) < 3 else _sampled
    steps = [
        Step(places[row] + 1, float(spent[places[row]]), volume) for row, volume in grow(costs)
    ]
    return Curve(steps, len(trials), float(spent[-1]))


def _exact(costs: Array) -> Iterator[tuple[int, float]]:
    """Rows that raise the hypervolume, and what it is then."""
    front, reference, most = np.empty((0, costs.shape[1])), np.ones(costs.shape[1]), -1.0
    for start in range(0, len(costs), _CHUNK):
        chunk = costs[start : start + _CHUNK]
        beaten = (front[:, None, :] <= chunk[None, :, :]).all(axis=2).any(axis=0)
        for row in np.flatnonzero(~beaten):
            point = chunk[row]
            if (front <= point).all(axis=1).any():
                continue
            front = np.vstack([front[~(point <= front).all(axis=1)], point])
            volume = hypervolume(front, reference)
            if volume > most:
                most = volume
                yield start + int(row), volume


def _sampled(costs: Array) -> Iterator[tuple[int, float]]:
    """The same by the share of fixed points in the box that are dominated."""
    left = np.random.default_rng(0).random((_PROBES, costs.shape[1]))
    for start in range(0, len(costs), _CHUNK):
        chunk = costs[start : start + _CHUNK]
        covers = np.ones((len(chunk), len(left)), dtype=bool)  # (rows, points left)
        for column in range(costs.shape[1]):
            covers &= chunk[:, column, None] <= left[None, :, column]
        covered = covers.any(axis=0)
        rows, counts = np.unique(covers.argmax(axis=0)[covered], return_counts=True)
        done = _PROBES - len(left)
        for row, total in zip(rows, np.cumsum(counts), strict=True):
            yield start + int(row), float(done + total) / _PROBES
        left = left[~covered]


_SHEETS = (Sheet("wide", 430, 320), SHEETS[1])
