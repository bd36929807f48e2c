"""The front: what can be had of one objective for how much of another.

With one objective there is no front, and the section shows its value from trial to trial. The page
holds one chart; the script draws it anew for any other two values, a colour and a closer look.
"""

from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

from formwright.report.chart import (
    SHEETS,
    Chart,
    Scale,
    Sheet,
    legend,
    on_each_sheet,
    scale_of,
    stairs,
)
from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material, thinned
from formwright.report.section import section
from formwright.report.sections.table import value_names
from formwright.report.words import figure, measured, plural, readable, stage, wish
from formwright.trial import FINAL_RUNG, Objective, Trial

_DOTS = 80_000  # in all charts of the page together
_CROWD = 1500  # dots above which they are drawn finer
_FAR = 3.0  # times the extent of the trials that a baseline may stretch an axis to
_SPARSE = 4  # trials below which there is nothing to squeeze
_MARKS = 300  # of the front that can be reached by keyboard

Pair = tuple[Objective, Objective]


class ParetoInfo(NamedTuple):
    """What a chart of two objectives shows."""

    x: Objective
    y: Objective
    front: list[Trial]  # sorted by the objective on the x axis
    dominated: list[Trial]  # neither on the front nor random
    random: list[Trial]  # of the random control, not on the front
    baseline: tuple[float, float] | None
    left_out: int  # dominated and random trials that were thinned out
    chosen: int | None  # number of the trial that the headline speaks of
    limits: Mapping[str, float]

    def at(self, trial: Trial) -> tuple[float, float]:
        """Where a trial lies."""
        return trial.values[self.x.name], trial.values[self.y.name]


class ValuesInfo(NamedTuple):
    """What a chart of one objective shows."""

    objective: Objective
    found: list[Trial]
    random: list[Trial]
    best: list[tuple[int, float]]  # number of the trial and value, wherever it got better
    baseline: float | None
    limit: float | None


def pareto_info(material: Material, pair: Pair, most: int = _DOTS) -> ParetoInfo:
    """The front and the others, in two of the objectives."""
    x, y = pair
    best = {trial.number for trial in material.front}
    front = sorted(material.front, key=lambda trial: (trial.values[x.name], trial.number))
    others = [trial for trial in material.compared if trial.number not in best]
    held = {trial.number for trial in material.kept}  # what the script can answer for
    shown = thinned([trial for trial in others if trial.number in held], most)
    values = baseline_values(material)
    known = x.name in values and y.name in values
    return ParetoInfo(
        x=x,
        y=y,
        front=front,
        dominated=[trial for trial in shown if not trial.control],
        random=[trial for trial in shown if trial.control],
        baseline=(values[x.name], values[y.name]) if known else None,
        left_out=len(others) - len(shown),
        chosen=material.chosen.number if material.chosen else None,
        limits=material.limits,
    )


def baseline_values(material: Material) -> dict[str, float]:
    """What was measured of the baseline, as far as it can be drawn."""
    values = material.outcome.baseline.values if material.outcome.baseline else {}
    return {name: value for name, value in values.items() if isfinite(value)}


def pareto_svg(info: ParetoInfo, sheet: Sheet, *, joined_up: bool) -> Safe:
    """The chart. ``joined_up``: the front is the front of these two, so a line may join it."""
    chart = Chart(sheet, *scales(info))
    size = " fine" if len(info.dominated) + len(info.random) > _CROWD else ""
    chart.dots(map(info.at, info.dominated), f"dominated{size}")
    chart.dots(map(info.at, info.random), f"random{size}")
    points = [info.at(trial) for trial in info.front]
    if joined_up:
        if info.x.direction == "max":  # a step keeps what the better neighbour gives
            points.reverse()
        chart.line(stairs(points, points[-1][0]) if points else [], "front")
    few = sorted(thinned(info.front, _MARKS), key=lambda trial: trial.number == info.chosen)
    for trial in few:
        words = f"Trial {trial.number}: {_values(info, trial)}"
        large = trial.number == info.chosen
        chart.mark(info.at(trial), "front", words, trial.number, large=large)
    if len(few) < len(info.front):
        chart.dots(points, "front")
    for axis, objective in (("x", info.x), ("y", info.y)):
        if objective.name in info.limits:
            chart.rule(axis, info.limits[objective.name], _limit(objective.name, info.limits))
    if info.baseline and not baseline_outside(info):
        chart.diamond(info.baseline, "baseline", "baseline")
    labels = tuple(f"{readable(o.name)} · {wish(o)}" for o in (info.x, info.y))
    others = len(info.dominated) + len(info.random)
    kinds = f"{plural(len(info.front), 'trial')} on the front, {others:,} others"
    described = f"{readable(info.y.name)} against {readable(info.x.name)}: {kinds}."
    return chart.svg((labels[0], labels[1]), described, data="pareto")


def scales(info: ParetoInfo) -> tuple[Scale, Scale]:
    """Both axes: the whole front, nearly all others, baseline and limits that are not far off."""
    everyone = [*info.front, *info.dominated, *info.random]
    found = []
    for axis, objective in enumerate((info.x, info.y)):
        values = [trial.values[objective.name] for trial in everyone]
        must = [trial.values[objective.name] for trial in info.front]
        plain = scale_of(values, must)
        beyond = [info.baseline[axis]] if info.baseline else []
        if objective.name in info.limits:
            beyond.append(info.limits[objective.name])
        for value in beyond:
            whole = scale_of(values, [*must, value])
            near = whole.high - whole.low <= _FAR * (plain.high - plain.low)
            if near or whole.log or len(everyone) < _SPARSE:
                must.append(value)
        plain = scale_of(values, must)
        found.append(plain)
    return found[0], found[1]


def baseline_outside(info: ParetoInfo) -> bool:
    """Whether the baseline is so far off that showing it would squeeze everything else."""
    x, y = scales(info)
    return info.baseline is not None and not (
        x.holds(info.baseline[0]) and y.holds(info.baseline[1])
    )


def values_info(material: Material) -> ValuesInfo:
    """One objective from trial to trial, and the best so far."""
    objective = material.objectives[0]
    best: list[tuple[int, float]] = []
    for trial in material.counting:
        value = trial.values[objective.name]
        if not best or objective.sign * value < objective.sign * best[-1][1]:
            best.append((trial.number, value))
    held = {trial.number for trial in material.kept}
    shown = [trial for trial in material.compared if trial.number in held]
    return ValuesInfo(
        objective=objective,
        found=[trial for trial in shown if not trial.control],
        random=[trial for trial in shown if trial.control],
        best=best,
        baseline=baseline_values(material).get(objective.name),
        limit=material.limits.get(objective.name),
    )


def values_svg(info: ValuesInfo, sheet: Sheet) -> Safe:
    """The chart of one objective."""
    name, everyone = info.objective.name, [*info.found, *info.random]
    last = max(trial.number for trial in everyone)
    must = [value for _, value in info.best] + ([] if info.baseline is None else [info.baseline])
    y = scale_of([trial.values[name] for trial in everyone], must)
    chart = Chart(sheet, scale_of([0, max(1, last)]), y)
    chart.dots(((trial.number, trial.values[name]) for trial in info.found), "dominated")
    chart.dots(((trial.number, trial.values[name]) for trial in info.random), "random")
    if info.baseline is not None:
        chart.line([(0, info.baseline), (max(1, last), info.baseline)], "baseline")
    chart.line(stairs(info.best, last), "front")
    if info.limit is not None:
        chart.rule("y", info.limit, _limit(name, {name: info.limit}))
    for number, value in info.best[-_MARKS:]:
        words = f"Trial {number}: {readable(name)} {figure(value)}"
        chart.mark((number, value), "front", words, number)
    labels = ("trial", f"{readable(name)} · {wish(info.objective)}")
    return chart.svg(labels, f"{readable(name)} of {len(everyone):,} trials.", data="values")


@section("found", "What was found")
def pareto_html(material: Material) -> Safe | None:
    """The section."""
    if not material.compared:
        return None
    goals = material.objectives
    if len(goals) == 1:
        values = values_info(material)
        drawn = [values_svg(values, sheet) for sheet in SHEETS]
        keys, remark, x, y = _values_legend(values), _HINT, "", goals[0].name
    else:
        x, y = goals[1].name, goals[0].name
        info = pareto_info(material, (goals[1], goals[0]), _DOTS // 2)
        drawn = [pareto_svg(info, sheet, joined_up=len(goals) == 2) for sheet in SHEETS]
        keys, remark = _legend(info, material), _remark(info, material)
    return joined(
        [
            _controls(material, x, y),
            tag("div", on_each_sheet(drawn), data_x=x, data_y=y, class_="explorer"),
            keys,
            tag("ul", class_="legend", id="shades", hidden=True),
            tag("p", remark, class_="quiet"),
            tag("p", class_="quiet", id="held", role="status"),
        ]
    )


def axis_values(material: Material) -> list[str]:
    """What can stand on an axis: values that differ among the trials that charts show.

    The ends of intervals are left out, and how a training went comes last.
    """
    shown, found = material.compared, []
    for name in value_names(material):
        if name.endswith(("_low", "_high")):
            continue
        values = {trial.values[name] for trial in shown if name in trial.values}
        if len(values) > 1 or name in (o.name for o in material.objectives):
            found.append(name)
    return found


def _controls(material: Material, x: str, y: str) -> Safe:
    """Choosing axes and colour, and looking closer; of no use without the script."""
    names = axis_values(material)
    boxes = []
    for axis, taken, first in (("x", x, True), ("y", y, False), ("colour", None, True)):
        nothing = "nothing" if axis == "colour" else "trial"
        options = [tag("option", nothing, value="")] if first else []
        options += [
            tag("option", readable(name), value=name, selected=name == taken) for name in names
        ]
        words = "value shown as colour" if axis == "colour" else f"value on the {axis} axis"
        box = tag("select", options, data_axis=axis, aria_label=words)
        boxes.append(tag("label", "colour " if axis == "colour" else f"{axis} axis ", box))
    stages = sorted({trial.rung for trial in material.kept if trial.done})
    if len(stages) > 1:
        told = [tag("option", "what is compared", value="")]
        told += [tag("option", _stage(rung), value=rung) for rung in stages]
        box = tag("select", told, data_axis="stage", aria_label="trials that are shown")
        boxes.append(tag("label", "trials ", box))
    zoom = [
        tag("button", words, type="button", class_="press", data_zoom=kind, aria_label=said,
            disabled=kind == "reset")
        for kind, words, said in (
            ("in", "+", "look closer"), ("out", "\u2212", "look from further away"),
            ("reset", "Reset", "show everything again"),
        )
    ]  # fmt: skip
    return tag("div", boxes, tag("span", zoom, class_="range"), class_="controls")


def _stage(rung: int) -> str:
    return f"finals {rung - FINAL_RUNG + 1}" if rung >= FINAL_RUNG else stage(rung)


def _values_legend(info: ValuesInfo) -> Safe:
    keys = [("front", "best so far"), ("dominated", "trials of the search")]
    keys += [("random", "random control")] if info.random else []
    keys += [("baseline", "baseline")] if info.baseline is not None else []
    return legend(*keys)


def _limit(name: str, limits: Mapping[str, float]) -> str:
    return f"limit {measured(name, limits[name])}"


def _legend(info: ParetoInfo, material: Material) -> Safe:
    baseline, far = material.outcome.baseline, baseline_outside(info)
    return legend(
        ("front", "front"),
        ("dominated", "other trials of the search") if info.dominated else None,
        ("random", "random control") if info.random else None,
        ("baseline", baseline.name) if baseline and info.baseline and not far else None,
        ("limit line", "limit") if {info.x.name, info.y.name} & {*info.limits} else None,
    )


_HINT = (
    "Hover for values; click, tap or press Enter on a point for its architecture, and Shift and "
    "click on two to compare them. Drag a frame to look closer; a double click shows all again."
)


def _remark(info: ParetoInfo, material: Material) -> str:
    said = _HINT
    if info.chosen is not None:
        said += f" The large point is trial {info.chosen}."
    if baseline_outside(info) and info.baseline and material.outcome.baseline:
        x, y = (
            f"{readable(o.name)} {figure(v)}"
            for o, v in zip((info.x, info.y), info.baseline, strict=True)
        )
        said += f" {material.outcome.baseline.name} lies outside: {x}, {y}."
    if info.left_out:
        said += f" {info.left_out:,} of the other trials are left out, evenly."
    below = sum(trial.done for trial in material.trials) - len(material.compared)
    if below:
        said += (
            f" {plural(below, 'trial')} at lower rungs are not compared with these; choose them "
            "above, or see the table."
        )
    return said


def _values(info: ParetoInfo, trial: Trial) -> str:
    return ", ".join(f"{readable(o.name)} {figure(trial.values[o.name])}" for o in (info.x, info.y))
