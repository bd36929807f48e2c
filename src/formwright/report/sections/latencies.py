"""Latency against length and against threads, where it was measured for the report."""

from math import isfinite
from typing import Any, NamedTuple

from formwright.report.chart import SHEETS, Chart, Sheet, figure_html, scale_of
from formwright.report.html import Safe, joined, row_html, table_html, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.where import machine_packages
from formwright.report.words import between, figure, plural

_SMALL = (Sheet("wide", 430, 320), SHEETS[1])
_COLOURS = ("front", "baseline", "o3", "o5")
_WILD = 1.5  # times the largest latency that an interval may reach in the chart
_VAGUE = 2.0  # times its lower end that an interval may reach and still say something
_AXES = {"length": "tokens of the text", "threads": "threads"}


class Timed(NamedTuple):
    """Latency of one model at one place of an axis, in milliseconds."""

    at: float
    ms: float
    low: float
    high: float


class LatenciesInfo(NamedTuple):
    """What was measured, by axis and model."""

    target: str
    machine: str
    curves: dict[str, dict[str, list[Timed]]]


def latencies_info(material: Material) -> LatenciesInfo | None:
    """None where nothing was measured for the report."""
    found = material.phase("latencies")
    if not isinstance(found, dict) or not isinstance(found.get("curves"), dict):
        return None
    known = found.get("machine")
    machine: dict[str, Any] = known if isinstance(known, dict) else {}
    words = [str(machine.get("cpu") or ""), *machine_packages(machine)]
    try:
        curves = {axis: _curves(found["curves"][axis]) for axis in _AXES if axis in found["curves"]}
    except (TypeError, ValueError, AttributeError):
        return None
    return LatenciesInfo(str(found.get("target", "")), ", ".join(filter(None, words)), curves)


def latencies_svg(info: LatenciesInfo, axis: str, sheet: Sheet) -> Safe:
    """A line for each model."""
    rows = info.curves[axis]
    every = [point for points in rows.values() for point in points]
    most = _WILD * max(point.ms for point in every)  # beyond, an interval would squeeze the rest
    times = [min(end, most) for point in every for end in (point.low, point.ms, point.high)]
    places = [point.at for point in every]
    chart = Chart(sheet, scale_of(places, places), scale_of([0.0, *times], [0.0, *times]))
    for (_, points), colour in zip(rows.items(), _COLOURS, strict=False):
        chart.line([(point.at, point.ms) for point in points], colour)
        for point in points:
            chart.line([(point.at, point.low), (point.at, min(point.high, most))], colour)
        chart.dots([(point.at, point.ms) for point in points], colour)
    names = " and ".join(rows)
    return chart.svg((_AXES[axis], "latency (ms)"), f"Latency of {names} against {_AXES[axis]}.")


@section("latencies", "Latency against length and threads")
def latencies_html(material: Material) -> Safe | None:
    """The section."""
    info = latencies_info(material)
    if info is None or not any(info.curves.values()):
        return None
    said = f"Measured for this report on {info.target}"
    said += f", {info.machine}. " if info.machine else ". "
    said += "The other axis is as the target has it; bars are 95 % intervals."
    if unread := sum(point.high > _VAGUE * point.low for point in _points(info)):
        said += (
            f" {plural(unread, 'point')} can hardly be read, so busy was the machine: measure "
            "again on a quiet one."
        )
    names = list(next(iter(info.curves.values())))
    keys = [(f"{colour} line", name) for name, colour in zip(names, _COLOURS, strict=False)]
    drawn = [
        figure_html(f"over {_AXES[axis]}", [latencies_svg(info, axis, s) for s in _SMALL], keys)
        for axis, rows in info.curves.items()
        if rows
    ]
    heads = ("", "model", "latency (ms)", "95 %")
    rows = [
        row_html(
            f"{figure(point.at)} {_AXES[axis]}",
            [name, figure(point.ms), between(point.low, point.high)],
        )
        for axis, by in info.curves.items()
        for name, points in by.items()
        for point in points
    ]
    table = tag("details", tag("summary", "The figures"), table_html(heads, rows))
    twin = tag("div", drawn, class_="twin")
    return joined([tag("p", said, class_="quiet"), twin, table])


def _points(info: LatenciesInfo) -> list[Timed]:
    return [p for rows in info.curves.values() for points in rows.values() for p in points]


def _curves(rows: Any) -> dict[str, list[Timed]]:
    found = {
        str(name): [Timed(*map(float, row)) for row in points] for name, points in rows.items()
    }
    for points in found.values():
        if not all(isfinite(value) for point in points for value in point):
            raise ValueError("a latency is no number")
    return {name: points for name, points in found.items() if points}
