"""How the gates moved while the supernet trained, and what their options cost.

A line for each gate and a strong one for their mean; where options have prices, what was on cost
so much at each step (Finding Fast Transformers, https://arxiv.org/abs/2008.06808).
"""

from collections.abc import Sequence
from typing import NamedTuple

from formwright.report.chart import SHEETS, Chart, Scale, Sheet, figure_html
from formwright.report.html import Safe, joined, row_html, table_html, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.supernet import Group, Method, Seen, methods_of
from formwright.report.words import figure, plural
from formwright.trace import Look

_SHEETS = (Sheet("wide", 430, 300), SHEETS[1])
_COLOURS = 6  # more options than that share one
_LINES = 60  # thin lines of one colour
_PANELS = 12

Line = list[tuple[float, float]]


class Series(NamedTuple):
    """Gates of one colour."""

    words: str
    mean: Line
    each: list[Line]


class GatesInfo(NamedTuple):
    """Decisions that are alike."""

    group: Group
    series: list[Series]
    low: float
    high: float


class CostInfo(NamedTuple):
    """What was on cost, over time."""

    names: list[str]  # of components, the dearest first
    whole: list[float]  # what each costs with all of it on
    lines: list[Line]  # of each
    total: Line


def gates_info(trace: Seen) -> list[GatesInfo]:
    """One for each group of decisions; none without at least two looks."""
    if len(trace.looks) < 2:
        return []
    counts = {name: len(row) for name, row in trace.looks[-1].values.items()}
    found = []
    for group in trace.groups(counts):
        coloured = 1 < len(group.options) <= _COLOURS and group.single
        every = list(range(len(group.options)))
        if len(every) == 2 and group.options[0] in ("off", "0", "0.0"):
            every = [1]  # the other one is what is left of it
        series = [_series(trace.looks, group, every, "gates")]
        if coloured:
            series = [_series(trace.looks, group, [i], group.options[i]) for i in every]
        values = [y for part in series for line in part.each for _, y in line]
        if values:
            found.append(GatesInfo(group, series, min(0.0, *values), max(1.0, *values)))
    return found


def _series(looks: Sequence[Look], group: Group, options: list[int], words: str) -> Series:
    """All gates of some options, and their mean."""
    each: list[Line] = []
    sums: dict[int, list[float]] = {}
    for name in group.names:
        for option in options:
            line = [
                (float(look.step), look.values[name][option])
                for look in looks
                if len(look.values.get(name, ())) > option
            ]
            for step, value in line:
                sums.setdefault(int(step), []).append(value)
            each.append(line)
    mean = [(float(step), sum(row) / len(row)) for step, row in sorted(sums.items())]
    return Series(words, mean, each)


def cost_info(trace: Seen) -> CostInfo | None:
    """Price times gate, summed by component: a kind of layer, or what names have in common."""
    counts = {name: len(row) for name, row in trace.prices.items() if any(row)}
    if not counts or len(trace.looks) < 2:
        return None
    parts: dict[str, list[tuple[str, int]]] = {}
    for group in trace.groups(counts):
        for option, words in enumerate(group.options):
            title = words if group.single else group.title
            parts.setdefault(title, []).extend((name, option) for name in group.names)
    whole = {title: sum(trace.prices[n][o] for n, o in part) for title, part in parts.items()}
    order = sorted((title for title in parts if whole[title]), key=lambda title: -whole[title])
    lines = [
        [(float(look.step), _cost(trace, look, parts[title])) for look in trace.looks]
        for title in order
    ]
    total = [(line[0][0], sum(y for _, y in line)) for line in zip(*lines, strict=True)]
    return CostInfo(order, [whole[title] for title in order], lines, total)


def _cost(trace: Seen, look: Look, part: Sequence[tuple[str, int]]) -> float:
    gates = ((trace.prices[n][o], look.values.get(n, ()), o) for n, o in part)
    return sum(price * abs(row[o]) for price, row, o in gates if o < len(row))


def gates_svg(info: GatesInfo, sheet: Sheet) -> Safe:
    """Thin lines first, so that the means lie above them."""
    steps = [x for part in info.series for x, _ in part.mean]
    chart = Chart(sheet, _steps(steps), Scale(info.low, info.high * 1.02))
    for number, part in enumerate(info.series):
        step = max(1, len(part.each) // _LINES)
        for line in part.each[::step] if len(part.each) > 1 else ():
            chart.line(line, f"thin o{number}")
    for number, part in enumerate(info.series):
        chart.line(part.mean, f"o{number}")
    said = f"Gates of {info.group.title} over the steps of the search."
    return chart.svg(("step", "how much is on"), said)


def cost_svg(info: CostInfo, sheet: Sheet) -> Safe:
    """All of it, and the dearest components."""
    top = max(y for _, y in info.total)
    chart = Chart(sheet, _steps([x for x, _ in info.total]), Scale(0.0, max(top * 1.05, 1e-9)))
    for number, line in enumerate(info.lines[:_COLOURS] if len(info.lines) > 1 else []):
        chart.line(line, f"o{number}")
    chart.line(info.total, "whole")
    return chart.svg(("step", "expected cost"), "Cost of what is on, over the steps of the search.")


def _steps(steps: Sequence[float]) -> Scale:
    low, high = min(steps), max(steps)
    return Scale(low, high if high > low else low + 1)


@section("gates", "How the gates moved")
def gates_html(material: Material) -> Safe | None:
    """The section: a panel for each method, with a title where methods have names."""
    parts: list[Safe | None] = []
    left_out = 0
    for method in methods_of(material):
        found = gates_info(method.trace)
        if found:
            parts += [title_html(material, method), _panel(method.trace, found)]
            left_out = max(left_out, len(found) - _PANELS)
    if not parts:
        return None
    said = "How much of each option was on as the supernet trained: thin lines for single gates, "
    said += "a strong one for their mean."
    if left_out:
        said += f" {plural(left_out, 'further kind')} of gates are left out."
    return joined([tag("p", said, class_="quiet"), *parts])


def title_html(material: Material, method: Method) -> Safe | None:
    """What a panel is about: the method, its price, and the trial that it found."""
    if not method.name:
        return None
    words = "" if method.price is None else f", at price {method.price:g}"
    trial = next((t for t in material.trials if method.name in t.details.get("methods", ())), None)
    if trial is not None:
        words += f": trial {trial.number}"
        words += ", which the headline is about" * (trial.number == material.outcome.chosen)
    return tag("h3", "Search ", tag("code", method.name), words)


def _panel(trace: Seen, found: Sequence[GatesInfo]) -> Safe:
    """The gates of one search, and what they cost."""
    cost = cost_info(trace)
    figures = []
    for info in found[:_PANELS]:
        title = f"{info.group.title}, {plural(len(info.group.names), 'place')}"
        drawn = [gates_svg(info, sheet) for sheet in _SHEETS]
        figures.append(figure_html(title, drawn, _keys([part.words for part in info.series])))
    if cost is None:
        return tag("div", figures, class_="twin")
    keys = [("line whole", "all together"), *_keys(cost.names)]
    drawn = [cost_svg(cost, sheet) for sheet in _SHEETS]
    figures.append(figure_html("expected cost", drawn, keys))
    return joined([tag("div", figures, class_="twin"), _cost_table(cost)])


def _keys(words: Sequence[str]) -> list[tuple[str, str]]:
    """Colours and what they stand for, where there are several."""
    several = words[:_COLOURS] if len(words) > 1 else ()
    return [(f"line o{i}", word) for i, word in enumerate(several)]


def _cost_table(info: CostInfo) -> Safe:
    """Components with what they would cost with all of them on, and what they do at the end."""
    heads = ("component", "cost if all of it is on", "cost at the end")
    rows = [
        (name, figure(whole, 3), figure(line[-1][1], 3))
        for name, whole, line in zip(info.names, info.whole, info.lines, strict=True)
    ]
    rows.append(("all together", "", figure(info.total[-1][1], 3)))
    return table_html(heads, (row_html(name, rest) for name, *rest in rows))
