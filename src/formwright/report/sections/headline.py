"""The head of the page: what was found, in words, against what, at what cost."""

import re
from math import isfinite, nan
from typing import NamedTuple

from formwright.report.html import Safe, joined, table_html, tag, trial_button
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import duration, figure, plural, readable
from formwright.trial import Objective

# How a training went, which tells nothing of how two models compare.
_HOW = {"seeds", "rate", "epochs", "tokens_per_second", "step_seconds", "processor_share"}
_HOW |= {"slope", "latency_ratio", "cooldown_steps"}


class Tile(NamedTuple):
    """A figure with a name, and a remark below."""

    name: str
    figure: str
    remark: str


class Comparison(NamedTuple):
    """One value of the chosen trial beside the baseline's."""

    name: str
    found: float
    baseline: float
    objective: Objective | None  # None where the value is no objective

    @property
    def change(self) -> float:
        """How far it is from the baseline, as a share of it; NaN where that has no meaning."""
        return self.found / self.baseline - 1 if self.baseline else nan

    @property
    def verdict(self) -> str:
        """``better``, ``worse`` or, for what is no objective or equal, nothing."""
        if self.objective is None or self.found == self.baseline:
            return ""
        lower = self.found < self.baseline
        return "better" if lower == (self.objective.direction == "min") else "worse"


class HeadlineInfo(NamedTuple):
    """What the head of the page says."""

    sentence: str
    tiles: list[Tile]
    comparisons: list[Comparison]


def headline_info(material: Material) -> HeadlineInfo:
    """The result in a sentence and a few figures."""
    return HeadlineInfo(_sentence(material), _tiles(material), _comparisons(material))


@section("result", "")
def headline_html(material: Material) -> Safe:
    """The head of the page."""
    info = headline_info(material)
    tiles = [
        tag("div", tag("dt", tile.name), tag("dd", tile.figure), tag("p", tile.remark))
        for tile in info.tiles
    ]
    title, *others = re.split(r"(?<=\.) (?=[A-Z])", info.sentence, maxsplit=1)
    rest = "".join(others)
    task = material.meta.get("task")
    name = material.meta.get("space", {}).get("name") if material.space else None
    about = [f"task {task}" if task else None, f"space {name}" if name else None]
    about += [f"strategy {material.meta['strategy']['name']}", f"seed {material.meta['seed']}"]
    return joined(
        [
            tag("p", material.name, class_="eyebrow"),
            tag("h1", title),
            tag("p", rest, class_="lead") if rest else None,
            [tag("p", note) for note in material.outcome.notes],
            tag("p", " · ".join(word for word in about if word), class_="quiet"),
            tag("dl", tiles, class_="tiles"),
            _comparison_table(info, material) if info.comparisons else None,
        ]
    )


def _sentence(material: Material) -> str:
    if material.outcome.headline:
        return material.outcome.headline
    state = material.state
    if not state.total:
        return "This study has no trials yet."
    if not material.ended:
        return f"This search is under way: {state.done:,} of {plural(state.total, 'trial')} done."
    if not state.done:
        return f"None of {plural(state.total, 'trial')} has a result: all failed."
    best, first = material.chosen, material.objectives[0]
    if best is None:
        return f"None of {plural(state.total, 'trial')} keeps the limits."
    value = figure(best.values[first.name])
    word = "lowest" if first.direction == "min" else "highest"
    found = f"The {word} {readable(first.name)} found is {value}, by trial {best.number}"
    if len(material.objectives) == 1:
        return f"{found}."
    return f"{found}; the front has {plural(len(material.front), 'member')}."


def _tiles(material: Material) -> list[Tile]:
    state, random = material.state, sum(trial.control for trial in material.trials)
    remark = f"{state.failed:,} failed" if state.failed else "none failed"
    if state.waiting + state.running:
        remark += f", {state.waiting + state.running:,} open"
    tiles = [Tile("trials", f"{state.total:,}", remark)]
    if len(material.objectives) > 1:
        tiles.append(Tile("on the front", f"{len(material.front):,}", "beaten by none in all"))
    spent = sum(trial.seconds for trial in material.trials)
    mean = duration(spent / max(1, state.done + state.failed))
    tiles.append(Tile("evaluation", duration(spent), f"{mean} each on average"))
    if random:
        tiles.append(Tile("random control", f"{random:,}", "drawn to compare with"))
    for name, value in list(material.outcome.facts.items())[:4]:
        if name.endswith(("_low", "_high")):
            continue
        low, high = (material.outcome.facts.get(f"{name}_{end}") for end in ("low", "high"))
        between = f"{figure(low)} to {figure(high)}" if low is not None and high is not None else ""
        words = "times cheaper" if name == "times" else readable(name)
        tiles.append(Tile(words, figure(value), between))
    return tiles


def _comparisons(material: Material) -> list[Comparison]:
    baseline, best = material.outcome.baseline, material.chosen
    if baseline is None or best is None:
        return []
    named = {objective.name: objective for objective in material.objectives}
    others = (name for name in best.values if not name.endswith(("_low", "_high")))
    names = [*named, *(name for name in others if name not in named and name not in _HOW)]
    return [
        Comparison(name, best.values[name], baseline.values[name], named.get(name))
        for name in names
        if name in best.values and isfinite(baseline.values.get(name, nan))
    ]


def _comparison_table(info: HeadlineInfo, material: Material) -> Safe:
    assert material.outcome.baseline is not None
    assert material.chosen is not None
    number = material.chosen.number
    button = trial_button(number, f"trial {number}")
    heads = ("", button, material.outcome.baseline.name, "difference")
    rows = [
        tag(
            "tr",
            tag("th", readable(row.name), scope="row"),
            tag("td", figure(row.found)),
            tag("td", figure(row.baseline)),
            tag("td", _change(row), class_=row.verdict or None),
        )
        for row in info.comparisons
    ]
    return table_html(heads, rows)


def _change(row: Comparison) -> str:
    if row.change != row.change:
        return ""
    if row.change == 0:
        return "equal"
    said = f"{abs(row.change):.1%} {'more' if row.change > 0 else 'less'}"
    return f"{said} ({row.verdict})" if row.verdict else said
