"""The page of a comparison: what it comes to, groups, curves at equal cost, fronts, every run."""

from collections.abc import Callable, Sequence
from math import isnan

from formwright.report.chart import SHEETS, Chart, Scale, Sheet, figure_html, scale_of, stairs
from formwright.report.compare.runs import Run, Runs
from formwright.report.compare.standing import Line, Score, Standing, standing
from formwright.report.html import Safe, copy_html, joined, row_html, table_html, tag
from formwright.report.judge import Sized
from formwright.report.page import page_script, section_html, whole_page
from formwright.report.sections.recommended import quoted
from formwright.report.where import where_words
from formwright.report.words import duration, figure, plural, readable, share_words, wish
from formwright.study.front import eligible

COLOURS = ("o0", "o4", "o3", "o5", "o1", "o2")
_SMALL = (Sheet("wide", 430, 320), SHEETS[1])
_SHOWN = 400  # trials of a run that the chart of fronts shows


def comparison_html(runs: Runs) -> str:
    """The whole page."""
    found = standing(runs)
    parts = [
        ("result", "", _head(found)),
        ("groups", "Groups at equal cost", _groups(found)),
        ("progress", "How they got on", _progress(found)),
        ("fronts", "What they found", _fronts(found)),
        ("runs", "The runs", _runs(found)),
    ]
    shown = [(id_, title, html) for id_, title, html in parts if html is not None]
    contents = [(id_, title) for id_, title, _ in shown if title]
    inner = [section_html(id_, title, html) for id_, title, html in shown]
    names = ", ".join(run.name for run in runs.runs[:4])
    tip = tag("div", id="tip", role="status", hidden=True)
    return whole_page(f"Comparison of {names}", contents, inner, [tip], page_script("compare"))


def colour_of(found: Standing, run: Run) -> tuple[int, str]:
    """Number of the group that a run is of, and its colour."""
    number = next(i for i, group in enumerate(found.runs.groups) if run in group.runs)
    return number, COLOURS[number % len(COLOURS)]


def _head(found: Standing) -> Safe:
    runs = found.runs
    title, *rest = found.words
    kinds = f"{plural(len(runs.runs), 'run')}, {plural(len(runs.groups), 'group')}"
    quality = f"{readable(runs.quality.name)}, {wish(runs.quality)}"
    task = runs.runs[0].material.meta.get("task") if not runs.obstacles else None
    where = where_words(runs.runs[0].material) if runs.by_front else ""
    about = [kinds, f"task {task}" if task else "", quality]
    return joined(
        [
            tag("p", "Comparison", class_="eyebrow"),
            tag("h1", title),
            [tag("p", words, class_="lead") for words in rest],
            tag("ul", [tag("li", words) for words in runs.cautions], class_="notes")
            if runs.cautions
            else None,
            tag("p", " · ".join(filter(None, about)), class_="quiet"),
            tag("p", f"Latencies hold for {where}.", class_="quiet") if where else None,
        ]
    )


def _groups(found: Standing) -> Safe | None:
    if found.runs.obstacles:
        return None
    fronts = any(group.volume is not None for group in found.groups)
    heads = ["group", "runs (seeds)", f"best {readable(found.runs.quality.name)}", "95 %", "p"]
    heads += ["covers of the box", "95 %", "p"] if fronts else []
    rows = []
    for group in found.groups:
        seeds = ", ".join(str(run.seed) for run in group.group.runs)
        cells: list[object] = [f"{len(group.group.runs)} ({seeds})", *_score(group.best, figure)]
        cells += _score(group.volume, share_words) if fronts else []
        rows.append(row_html(group.group.name, cells))
    level = _fidelity_words(found.runs)
    said = (
        f"Means over runs after {found.cost.words} each, that of the cheapest run{level}. The "
        "interval is over seeds (Student); p is the chance that seeds alone make a difference so "
        "large to the first group (permutation test, corrected for several groups). A value is "
        "coloured only where p is under 0.05."
    )
    return joined([tag("p", said, class_="quiet"), table_html(heads, rows, "figures tight")])


def _score(score: Score | None, say: Callable[[float], str]) -> list[object]:
    if score is None:
        return ["", "", ""]
    ends = "one run" if isnan(score.low) else f"{say(score.low)} to {say(score.high)}"
    chance = "" if score.chance is None else f"{score.chance:.3f}"
    value = tag("span", say(score.mean), class_=score.verdict or None)
    return [value, ends, chance]


def _fidelity_words(runs: Runs) -> str:
    if runs.fidelity is None:
        return ""
    rung, steps = runs.fidelity
    if steps:
        return f"; trials of {steps:,} training steps count"
    return f"; trials of stage {rung} count" if rung else ""


# --- charts -----------------------------------------------------------------------------


def _progress(found: Standing) -> Safe | None:
    if not any(line.best for line in found.lines):
        return None
    quality = found.runs.quality
    label = f"best {readable(quality.name)}"
    drawn = [
        figure_html(
            f"{label} over {words}",
            [_curves_svg(found, _best_points(over), label, sheet, over) for sheet in _SMALL],
        )
        for over, words in (("seconds", "cost"), ("trials", "trials"))
    ]
    if any(line.volume for line in found.lines):
        drawn += [
            figure_html(
                f"hypervolume over {words}",
                [_curves_svg(found, _volume_points(over), "share of the box", sheet, over)
                 for sheet in _SMALL],
            )
            for over, words in (("seconds", "cost"), ("trials", "trials"))
        ]  # fmt: skip
    cost = f"Strong lines are means of groups. The dashed line is equal cost: {found.cost.words}."
    return joined(
        [_toggles(found), tag("div", drawn, class_="twin"), tag("p", cost, class_="quiet")]
    )


Points = Callable[[Line], list[tuple[float, float]]]


def _best_points(over: str) -> Points:
    axis = 1 if over == "seconds" else 0
    return lambda line: [(step[axis], step[2]) for step in line.best]


def _volume_points(over: str) -> Points:
    return lambda line: [
        (getattr(step, over), step.volume) for step in (line.volume.steps if line.volume else [])
    ]


def _curves_svg(found: Standing, points: Points, label: str, sheet: Sheet, over: str) -> Safe:
    """A line for each run, which stays level until something better came."""
    ends = {line.run.name: _end(line, over) for line in found.lines}
    each = [(line, points(line)) for line in found.lines]
    values = [y for _, own in each for _, y in own]
    y = scale_of(values, values) if values else Scale(0.0, 1.0)
    chart = Chart(sheet, scale_of([0.0, max(ends.values(), default=1.0) or 1.0]), y)
    for line, own in each:
        number, colour = colour_of(found, line.run)
        before = len(chart.shapes)
        alone = len(found.runs.groups[number].runs) == 1
        look = colour if alone else f"{colour} thin"
        chart.line(stairs(own, max(ends[line.run.name], own[-1][0])) if own else [], look)
        drawn = chart.shapes[before:]
        name = f"{line.run.name} ({found.runs.groups[number].name})"
        chart.shapes[before:] = [tag("g", drawn, data_group=number, data_tip=name)]
    for number, group in enumerate(found.runs.groups):
        mine = [(own, ends[line.run.name]) for line, own in each if line.run in group.runs and own]
        if len(mine) > 1:
            before, colour = len(chart.shapes), COLOURS[number % len(COLOURS)]
            chart.line(mean_line(mine), f"{colour} thick")
            drawn, name = chart.shapes[before:], f"mean of {group.name}"
            chart.shapes[before:] = [tag("g", drawn, data_group=number, data_tip=name)]
    if found.cost.timed == (over == "seconds"):
        chart.line([(found.cost.most, y.low), (found.cost.most, y.high)], "limit")
    unit = "seconds of trials" if over == "seconds" else "trials"
    return chart.svg((unit, label), f"{label} over {unit}, {plural(len(each), 'run')}.")


def mean_line(
    lines: Sequence[tuple[Sequence[tuple[float, float]], float]],
) -> list[tuple[float, float]]:
    """The mean of lines that stay level until their next point, where all of them are.

    Args:
        lines: The points of each, and where it ends.
    """
    first, last = max(own[0][0] for own, _ in lines), min(end for _, end in lines)
    places = sorted({x for own, _ in lines for x, _ in own if first <= x <= last} | {first})
    if last < first:
        return []
    found = []
    for place in places:
        values = [[y for x, y in own if x <= place][-1] for own, _ in lines]
        found.append((place, sum(values) / len(values)))
    return stairs(found, last)


def _end(line: Line, over: str) -> float:
    trials = [t for t in line.run.material.trials if not t.final and not t.rival]
    return sum(t.seconds for t in trials) if over == "seconds" else float(len(trials))


def _toggles(found: Standing) -> Safe:
    boxes = []
    for number, group in enumerate(found.runs.groups):
        key = tag("span", class_=f"key {COLOURS[number % len(COLOURS)]}", aria_hidden="true")
        box = tag("input", type="checkbox", checked=True, data_toggle=number)
        boxes.append(tag("label", box, key, f" {group.name}", class_="toggle"))
    return tag("div", boxes, class_="controls", role="group", aria_label="groups that are shown")


def _fronts(found: Standing) -> Safe | None:
    runs = found.runs
    if not runs.by_front or runs.obstacles:
        return None
    y, x = runs.objectives[:2]
    rows = {
        run.name: eligible(runs.counted(run), runs.objectives, run.material.limits)[-_SHOWN:]
        for run in runs.runs
    }
    if not any(rows.values()):
        return None
    every = [trial for own in rows.values() for trial in own]

    def svg(sheet: Sheet) -> Safe:
        scales = (scale_of([t.values[o.name] for t in every]) for o in (x, y))
        chart = Chart(sheet, *scales)
        for run in runs.runs:
            number, colour = colour_of(found, run)
            before = len(chart.shapes)
            chart.dots([(t.values[x.name], t.values[y.name]) for t in rows[run.name]], colour)
            drawn = chart.shapes[before:]
            chart.shapes[before:] = [tag("g", drawn, data_group=number, data_tip=run.name)]
        labels = (f"{readable(x.name)} · {wish(x)}", f"{readable(y.name)} · {wish(y)}")
        return chart.svg(labels, f"{readable(y.name)} against {readable(x.name)} of all runs.")

    said = "Every trial that is compared, in the colour of its group."
    return joined([tag("p", said, class_="quiet"), figure_html("", [svg(s) for s in SHEETS])])


# --- the runs ---------------------------------------------------------------------------


def _runs(found: Standing) -> Safe:
    heads = ("run", "group", "seed", "trials", "failed", "time", "model to take", "parameters")
    rows = []
    for run in found.runs.runs:
        material, (number, _) = run.material, colour_of(found, run)
        rows.append(
            row_html(
                run.name,
                [
                    found.runs.groups[number].name,
                    run.seed,
                    f"{material.state.total:,}",
                    f"{material.state.failed:,}",
                    duration(material.worked),
                    _taken(run),
                    _params(run),
                ],
            )
        )
    words = [
        tag("li", tag("b", run.name), f": {run.material.outcome.headline or 'no result yet'}")
        for run in found.runs.runs
    ]
    folders = [quoted(str(run.material.folder)) for run in found.runs.runs if run.material.folder]
    return joined(
        [
            table_html(heads, rows, "figures tight"),
            tag("p", _unequal(found.runs.runs), class_="quiet"),
            tag("h3", "What each says of itself"),
            tag("ul", words, class_="notes"),
            tag("h3", "To make this page again"),
            copy_html(f"formwright compare {' '.join(folders)}", "the command"),
        ]
    )


def _taken(run: Run) -> str:
    """The model to take with its quality and interval, and how long it was trained."""
    material = run.material
    trial, name = material.taken or material.chosen, material.objectives[0].name
    if trial is None or name not in trial.values:
        return ""
    steps = trial.values.get("steps", trial.steps)
    after = f", {steps:,.0f} steps" if steps else ""
    return f"{readable(name)} {Sized.of(trial.values, name).words}{after}"


def _params(run: Run) -> str:
    trial = run.material.taken or run.material.chosen
    value = trial.values.get("params") if trial is not None else None
    return figure(value) if value else ""


def _unequal(runs: Sequence[Run]) -> str:
    """That models to take of runs with other trainings are no measure of the search."""
    steps = set()
    for run in runs:
        trial = run.material.taken or run.material.chosen
        if trial is not None:
            steps.add(trial.values.get("steps", trial.steps))
    if len(steps) < 2:
        return "Intervals of models are those of their own runs."
    return (
        "The models to take were trained for different numbers of steps, so their qualities say "
        "nothing of which search is better; the table above does, at equal cost."
    )
