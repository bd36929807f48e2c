"""Every student that was scored without labels: its loss against the teacher, over its cost."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from formwright.report.chart import SHEETS, Chart, Sheet, figure_html, scale_of
from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.supernet import FOLDER
from formwright.report.words import figure, plural, readable
from formwright.trace import Trace, is_number

_COSTS = ("flops", "params")
_MOST = 4000  # dots


class Student(NamedTuple):
    """One of them."""

    part: str
    loss: float
    costs: Mapping[str, float]


class ScoredInfo(NamedTuple):
    """All of them, the best ones for their cost, and where the limit lay."""

    cost: str
    students: list[Student]
    best: list[Student]  # nobody cheaper has a lower loss; from the cheapest on
    limit: float | None
    parts: dict[str, tuple[int, float]]  # how many of each sub-space, and their least loss


def scored_info(material: Material) -> ScoredInfo | None:
    """What the supernets of a study say of their students; None where there are none."""
    line = _line(material)
    students = [s for row in line.get("rows") or () if (s := _student(row)) is not None]
    cost = next((c for c in _COSTS if all(c in s.costs for s in students)), None)
    if not students or cost is None:
        return None
    best: list[Student] = []
    for student in sorted(students, key=lambda s: (s.costs[cost], s.loss)):
        if not best or student.loss < best[-1].loss:
            best.append(student)
    limits = line.get("limits")
    limit: Any = limits.get(cost) if isinstance(limits, dict) else None
    parts: dict[str, tuple[int, float]] = {}
    for student in students:
        many, least = parts.get(student.part, (0, float("inf")))
        parts[student.part] = many + 1, min(least, student.loss)
    return ScoredInfo(cost, students, best, float(limit) if is_number(limit) else None, parts)


def _line(material: Material) -> dict[str, Any]:
    if material.folder is None:
        return {}
    return Trace(material.folder / FOLDER).last("scored") or {}


def _student(row: Any) -> Student | None:
    """A row as it was written; None where it cannot be read."""
    if not isinstance(row, dict) or not is_number(row.get("loss")):
        return None
    costs = row.get("costs")
    known = (
        {k: float(v) for k, v in costs.items() if is_number(v)} if isinstance(costs, dict) else {}
    )
    return Student(str(row.get("part", "")), float(row["loss"]), known)


def scored_svg(info: ScoredInfo, sheet: Sheet) -> Safe:
    """Loss over cost; a line along the best, another where the limit lay."""
    shown = info.students[:: max(1, -(-len(info.students) // _MOST))]
    points = [(s.costs[info.cost], s.loss) for s in shown]
    best = [(s.costs[info.cost], s.loss) for s in info.best]
    x, y = (scale_of([p[i] for p in points], [p[i] for p in best]) for i in (0, 1))
    chart = Chart(sheet, x, y)
    chart.dots(points, "dominated")
    chart.line(best, "front")
    chart.dots(best, "front")
    if info.limit is not None and x.holds(info.limit):
        chart.line([(info.limit, y.low), (info.limit, y.high)], "random")
    words = readable(info.cost)
    said = f"Loss of {plural(len(info.students), 'student')} over {words}."
    return chart.svg((words, "loss against the teacher"), said)


@section("scored", "Students against their cost")
def scored_html(material: Material) -> Safe | None:
    """The section."""
    info = scored_info(material)
    if info is None:
        return None
    said = (
        f"{plural(len(info.students), 'student')} scored inside the supernets, without labels, on "
        "the same batches. The line joins those that nobody cheaper beats."
    )
    keys = [("dots dominated", "students"), ("front line", "best for their cost")]
    if info.limit is not None:
        keys.append(("random line", f"limit, {figure(info.limit)} {readable(info.cost)}"))
    rows = [
        tag("tr", tag("td", name), tag("td", f"{many:,}"), tag("td", figure(least)))
        for name, (many, least) in info.parts.items()
    ]
    head = tag("tr", [tag("th", word) for word in ("sub-space", "students", "least loss")])
    table = tag("table", head, rows) if len(info.parts) > 1 else None
    drawn = figure_html("loss over cost", [scored_svg(info, s) for s in SHEETS], keys)
    return joined([tag("p", said, class_="quiet"), drawn, *([table] if table else [])])
