"""Who was stopped at which hurdle, what the hurdles were, and what that saved."""

from typing import NamedTuple

from formwright.report.chart import SHEETS, Chart, Sheet, figure_html, scale_of
from formwright.report.evolution import distinct, is_evolution, members_of, replayed
from formwright.report.html import Safe, joined, row_html, table_html, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import figure, plural, readable
from formwright.strategy.blackbox.hurdled import Hurdled

_COLOURS = 6  # of the stages, in turn


class StageRow(NamedTuple):
    """One stage: how long it is, who had it, and who was carried on."""

    length: float
    unit: str
    reached: int
    passed: int


class Point(NamedTuple):
    """A training after a stage."""

    trial: int
    value: float
    stage: int


class HurdlesInfo(NamedTuple):
    """All stages; all trainings; the hurdle of each stage from which trial on; the share spent;
    whether values are what was expected of members in the finals."""

    stages: list[StageRow]
    points: list[Point]
    bars: dict[int, list[tuple[int, float]]]
    spent: float
    expected: bool = False


def hurdles_info(material: Material) -> HurdlesInfo | None:
    """What hurdles did; None where there were none, or only one stage."""
    if not is_evolution(material) or not material.objectives:
        return None
    quality = material.objectives[0]
    members = [member for member in distinct(members_of(material)) if member.done]
    deepest = max((trial.rung for member in members for trial in member.done), default=0)
    if not deepest:
        return None
    stages, points, taken = [], [], 0.0
    lengths, (bars, seen) = _lengths(material), _replay(material)
    for rung in range(deepest + 1):
        here = [m for m in members if len(m.done) > rung]
        passed = sum(len(m.trials) > rung + 1 for m in here)
        end, unit = lengths.get(rung, (0.0, "steps"))
        before = lengths.get(rung - 1, (0.0, unit))[0]
        stages.append(StageRow(end, unit, len(here), passed))
        taken += len(here) * (end - before)
        for member in here:
            trial = member.done[rung]
            if quality.name in trial.values:
                value = seen.get(trial.number, trial.values[quality.name])
                points.append(Point(trial.number, value, rung))
    whole = len(members) * stages[-1].length
    known = {t.number: t.values.get(quality.name) for m in members for t in m.done}
    expected = any(value != seen.get(number, value) for number, value in known.items())
    return HurdlesInfo(stages, points, bars, taken / whole if whole else 1.0, expected)


def _lengths(material: Material) -> dict[int, tuple[float, str]]:
    """How far each stage is trained, and in what."""
    found: dict[int, tuple[float, str]] = {}
    for member in distinct(members_of(material)):
        for trial in member.trials:
            if trial.train_seconds is not None:
                found[trial.rung] = (trial.train_seconds, "s")
            elif trial.steps is not None:
                found[trial.rung] = (float(trial.steps), "steps")
    return found


def _replay(material: Material) -> tuple[dict[int, list[tuple[int, float]]], dict[int, float]]:
    """The hurdle that stood when each trial ended, where it differs from the one before; and the
    results as they were held against hurdles: as they are, or as they were expected to become."""
    found: dict[int, list[tuple[int, float]]] = {}
    seen: dict[int, float] = {}
    name, sign = material.objectives[0].name, material.objectives[0].sign
    for search, trial in replayed(material):
        if not isinstance(search, Hurdled):
            return {}, {}
        rules = search.hurdles
        if name in trial.values:
            seen[trial.number] = search.foreseen(trial).values[name]
        for stage in range(rules.stages - 1):
            bar = rules.bar(stage)
            row = found.setdefault(stage, [])
            if bar is not None and (not row or row[-1][1] != sign * bar):
                row.append((trial.number, sign * bar))
    return found, seen


@section("hurdles", "Hurdles")
def hurdles_html(material: Material) -> Safe | None:
    """The section."""
    info = hurdles_info(material)
    if info is None:
        return None
    quality = readable(material.objectives[0].name)
    said = (
        f"After each stage only members that beat the hurdle were trained on. That took "
        f"{info.spent:.0%} of what training all of them to the last stage would have taken."
    )
    heads = ("stage", "trained to", "members", "stopped there", "went on")
    rows = [
        row_html(
            f"stage {number}",
            (
                f"{figure(stage.length)} {stage.unit}",
                f"{stage.reached:,}",
                f"{stage.reached - stage.passed:,}",
                f"{stage.passed:,}",
            ),
        )
        for number, stage in enumerate(info.stages, start=1)
    ]
    drawn = [_chart(info, sheet, quality) for sheet in SHEETS]
    keys = [(_colour(i), f"after stage {i + 1}") for i in range(len(info.stages))]
    what = "What was expected" if info.expected else "Results"
    title = f"{what} after each stage, and the hurdles (lines)"
    parts = [tag("p", said, class_="quiet"), table_html(heads, rows)]
    return joined([*parts, figure_html(title, drawn, keys)])


def _colour(stage: int) -> str:
    return f"o{stage % _COLOURS}"


def _chart(info: HurdlesInfo, sheet: Sheet, quality: str) -> Safe:
    last = max(point.trial for point in info.points)
    chart = Chart(sheet, scale_of([0, last]), scale_of([point.value for point in info.points]))
    for stage in range(len(info.stages)):
        row = [(float(p.trial), p.value) for p in info.points if p.stage == stage]
        chart.dots(row, _colour(stage))
        steps = info.bars.get(stage, [])
        line = [(float(at), value) for at, value in steps if chart.y.holds(value)]
        if line:
            chart.line([*line, (float(last), line[-1][1])], _colour(stage))
    words = f"{plural(len(info.points), 'training')} by trial and {quality}, with hurdles as lines"
    return chart.svg(("trial", quality), words)
