"""Learning curves: how the finalists and what they are held against got better, look by look."""

from math import isfinite
from typing import Any, NamedTuple

from formwright.report.chart import SHEETS, Chart, Sheet, figure_html, scale_of
from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import plural, readable, wish
from formwright.trial import Objective, Trial

_MOST = 8  # models drawn
_OTHERS = ("o1", "o3", "o5", "o2")  # colours of those that are neither taken nor rivals


class CurveLine(NamedTuple):
    """The metric of one model at every look; one list of points for each seed."""

    name: str
    trial: Trial | None  # None for a baseline outside the study
    seeds: list[list[tuple[float, float]]]
    role: str  # "taken", "rival" or "other"


class CurvesInfo(NamedTuple):
    """What was kept of the trainings."""

    metric: str
    objective: Objective | None
    lines: list[CurveLine]
    left_out: int


def curves_info(material: Material) -> CurvesInfo | None:
    """The last finals, the model to take first; None where no curve was kept."""
    finals = [trial for trial in material.trials if trial.final and trial.done]
    last = max((trial.rung for trial in finals), default=0)
    here = [trial for trial in finals if trial.rung == last]
    here.sort(key=lambda t: (t != material.taken, not t.rival, t.number))
    lines: list[CurveLine] = []
    metric = ""
    for trial in here:
        found = material.trial_file(trial, "curve.json")
        seeds = _seeds(found)
        if seeds and (not metric or found["metric"] == metric):
            metric = str(found["metric"])
            taken = material.taken is not None and trial.number == material.taken.number
            role = "taken" if taken else "rival" if trial.rival else "other"
            name = trial.note if trial.rival else f"trial {trial.number}"
            lines.append(CurveLine(name, trial, seeds, role))
    if not lines:
        return None
    objective = next((o for o in material.objectives if o.name == metric), None)
    return CurvesInfo(metric, objective, lines[:_MOST], max(0, len(lines) - _MOST))


def curves_svg(info: CurvesInfo, sheet: Sheet) -> Safe:
    """The metric over steps; the scale leaves the first looks out where they would squeeze."""
    points = [point for line in info.lines for seed in line.seeds for point in seed]
    late = _late([y for _, y in points])
    chart = Chart(
        sheet,
        scale_of([0.0, *(x for x, _ in points)], [0.0, max(x for x, _ in points)]),
        scale_of(late, late),
    )
    for line, cls in reversed(list(zip(info.lines, line_classes(info), strict=True))):
        for seed in line.seeds:
            inside = [point for point in seed if chart.y.holds(point[1])]
            chart.line(inside, cls)
            chart.dots(inside[-1:], f"{cls.split()[0]} last")
    said = f" · {wish(info.objective)}" if info.objective else ""
    names = ", ".join(line.name for line in info.lines)
    return chart.svg(
        ("training steps", f"{readable(info.metric)} on validation data{said}"),
        f"{readable(info.metric)} over training steps of {names}.",
    )


def line_classes(info: CurvesInfo) -> list[str]:
    """A look for each line: the model to take, rivals dashed, the others by colour."""
    others = iter(_OTHERS * _MOST)
    looks = {"taken": "front thick", "rival": "baseline"}
    return [looks.get(line.role) or next(others) for line in info.lines]


@section("curves", "Learning curves")
def curves_html(material: Material) -> Safe | None:
    """The section."""
    info = curves_info(material)
    if info is None or not any(len(seed) > 1 for line in info.lines for seed in line.seeds):
        return None
    several = max(len(line.seeds) for line in info.lines)
    said = "How the models of the finals learned; the dashed ones were designed by hand."
    if several > 1:
        said += f" Each has {plural(several, 'seed')}, a line for each."
    if info.left_out:
        said += f" {plural(info.left_out, 'model')} more are in the table of finals."
    keys = [
        (f"{cls.split()[0]} line", line.name + (" (to take)" if line.role == "taken" else ""))
        for line, cls in zip(info.lines, line_classes(info), strict=True)
    ]
    drawn = figure_html("", [curves_svg(info, sheet) for sheet in SHEETS], keys)
    return joined([tag("p", said, class_="quiet"), drawn])


def _seeds(found: Any) -> list[list[tuple[float, float]]]:
    """The points of each seed; none where the file is not what it should be."""
    if not isinstance(found, dict) or not isinstance(found.get("seeds"), list):
        return []
    lines = []
    for seed in found["seeds"]:
        try:
            pairs = zip(seed["steps"], seed[found["metric"]], strict=True)
            lines.append([(float(x), float(y)) for x, y in pairs if isfinite(y)])
        except (KeyError, TypeError, ValueError):
            return []
    return [line for line in lines if line]


def _late(values: list[float]) -> list[float]:
    """The values without the tenth at either end that begins far from all others."""
    ordered = sorted(values)
    spare = len(ordered) // 10
    middle = ordered[spare : len(ordered) - spare] or ordered
    room = 1.5 * (middle[-1] - middle[0])
    return [value for value in values if middle[0] - room <= value <= middle[-1] + room]
