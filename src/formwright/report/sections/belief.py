"""How far short trials could be believed: models that were trained twice, short and long."""

from math import isfinite
from typing import NamedTuple

from formwright.report.chart import SHEETS, Chart, Sheet, figure_html, scale_of
from formwright.report.html import Safe, joined, row_html, table_html, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import readable, stage
from formwright.strategy.belief import StageBelief, belief, root_of
from formwright.trial import FINAL_RUNG

_FEW = 4  # models below which nothing can be said


class BeliefInfo(NamedTuple):
    """Every two stages that models have in common, and the models of the two furthest apart."""

    stages: list[StageBelief]
    names: dict[int, str]
    widest: StageBelief
    points: list[tuple[float, float, int]]  # value short, value long, trial of the long one


def belief_info(material: Material) -> BeliefInfo | None:
    """None where no two models were trained at two stages."""
    first = material.objectives[0]
    stages = belief(material.trials, first)
    if not stages:
        return None
    widest = max(stages, key=lambda row: (row.pairs >= _FEW, row.other, -row.rung))
    values: dict[int, dict[int, tuple[float, int]]] = {}
    known = {trial.number: trial for trial in material.trials}
    for trial in material.trials:
        value = trial.values.get(first.name)
        if trial.done and trial.original is None and value is not None and isfinite(value):
            at = values.setdefault(min(trial.rung, FINAL_RUNG), {})
            at[root_of(trial, known)] = (value, trial.number)
    short, long = values.get(widest.rung, {}), values.get(widest.other, {})
    points = [(short[m][0], long[m][0], long[m][1]) for m in short if m in long]
    return BeliefInfo(stages, _names(material), widest, points)


def belief_svg(info: BeliefInfo, label: str, sheet: Sheet) -> Safe:
    """A dot for each model: its value after the short training, and after the long one."""
    xs, ys = ([point[axis] for point in info.points] for axis in (0, 1))
    chart = Chart(sheet, scale_of(xs, xs), scale_of(ys, ys))
    for x, y, number in info.points[:300]:
        chart.mark((x, y), "front", f"Trial {number}: {x:.4g}, then {y:.4g}", number)
    short, long = info.names[info.widest.rung], info.names[info.widest.other]
    return chart.svg(
        (f"{label}, {short}", f"{label}, {long}"),
        f"{label} of {len(info.points)} models: {short} against {long}.",
    )


@section("belief", "How far short trials could be believed")
def belief_html(material: Material) -> Safe | None:
    """The section."""
    info = belief_info(material)
    if info is None:
        return None
    label = readable(material.objectives[0].name)
    rows = [
        row_html(
            f"{info.names[row.rung]} → {info.names[row.other]}",
            [f"{row.pairs:,}", f"{row.correlation:+.2f}", f"{row.low:+.2f} to {row.high:+.2f}"],
        )
        for row in info.stages
    ]
    heads = ("stages", "models in both", "rank correlation", "95 %")
    drawn = None
    if len(info.points) >= _FEW:
        drawn = figure_html("", [belief_svg(info, label, sheet) for sheet in SHEETS])
    return joined([tag("p", belief_words(info)), drawn, table_html(heads, rows)])


def belief_words(info: BeliefInfo) -> str:
    """What the correlation means for the reader."""
    row = info.widest
    short, long = info.names[row.rung], info.names[row.other]
    if row.pairs < _FEW:
        return (
            f"Only {row.pairs} models were trained both for {short} and for {long}: too few to say "
            "how far short trials can be believed."
        )
    said = (
        f"{row.pairs} models were trained both for {short} and for {long}. The two put them in the "
        f"same order to {row.correlation:+.2f} (1 is the same order, 0 none; 95 %: {row.low:+.2f} "
        f"to {row.high:+.2f})"
    )
    if row.low > 0.5:
        return f"{said}: short trials told good models from bad ones."
    if row.low > 0:
        return f"{said}: short trials said something of the order, and not all."
    return f"{said}: this many models do not show that short trials say anything of the order."


def _names(material: Material) -> dict[int, str]:
    """Stages by how long they trained, where that is known."""
    found = {}
    for rung in sorted({min(trial.rung, FINAL_RUNG) for trial in material.trials}):
        here = [t for t in material.trials if min(t.rung, FINAL_RUNG) == rung]
        steps = {t.values.get("steps", t.steps) for t in here if t.done}
        known = {int(count) for count in steps if count}
        final = "the finals" if rung == FINAL_RUNG else stage(rung)
        found[rung] = f"{final} ({min(known):,} steps)" if len(known) == 1 else final
    return found
