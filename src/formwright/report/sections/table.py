"""All trials in a table. The rows are made by the page's script, from the data it holds anyway."""

from typing import NamedTuple

from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import plural, readable

_STATES = ("done", "failed", "running", "waiting")


class TableInfo(NamedTuple):
    """What can be filtered by, and how much the page holds."""

    states: list[str]
    rungs: list[int]
    values: list[str]  # names of columns: objectives first, then what else was measured
    held: int
    total: int


def table_info(material: Material) -> TableInfo:
    """The columns and filters that there is any use for."""
    states = {trial.state for trial in material.kept}
    return TableInfo(
        states=[state for state in _STATES if state in states],
        rungs=sorted({trial.rung for trial in material.kept}),
        values=value_names(material),
        held=len(material.kept),
        total=len(material.trials),
    )


def value_names(material: Material) -> list[str]:
    """Every value that some trial has: objectives first."""
    names = dict.fromkeys(objective.name for objective in material.objectives)
    for trial in material.kept:
        names |= dict.fromkeys(trial.values)
    return list(names)


@section("all", "All trials")
def table_html(material: Material) -> Safe | None:
    """The section: filters, and the place of the rows."""
    info = table_info(material)
    if not info.total:
        return None
    said = f"{plural(info.total, 'trial')}."
    if info.held < info.total:
        said += (
            f" This page holds {info.held:,} of them: the front, its ancestors, the latest "
            "failures, and others evenly over the search."
        )
    controls = [_select("state", info.states), _select("rung", info.rungs), _range(info)]
    words = tag(
        "input", type="search", data_filter="text", placeholder="number, note, notation, reason"
    )
    controls.insert(0, tag("label", "find ", words))
    front = tag("input", type="checkbox", data_filter="front")
    controls.append(tag("label", front, " front only") if len(material.objectives) > 1 else None)
    return joined(
        [
            tag("p", said, class_="quiet"),
            tag("div", controls, class_="controls", role="search"),
            tag("div", tag("table", class_="figures trials", id="trials"), class_="scroll"),
            tag("p", class_="pages", id="pages", aria_live="polite"),
            tag("noscript", tag("p", "The table needs the page's script; the rest does not.")),
        ]
    )


def _select(name: str, options: list[str] | list[int]) -> Safe | None:
    if len(options) < 2:
        return None
    every = tag("option", "any", value="")
    inner = [every, *(tag("option", option, value=option) for option in options)]
    return tag("label", f"{name} ", tag("select", inner, data_filter=name))


def _range(info: TableInfo) -> Safe:
    options = [tag("option", readable(name), value=name) for name in [*info.values, "seconds"]]
    column = tag("select", options, data_filter="column", aria_label="value to limit")
    ends = [
        tag("input", type="number", step="any", data_filter=end, aria_label=f"{word} value",
            placeholder=word)
        for end, word in (("low", "from"), ("high", "to"))
    ]  # fmt: skip
    return tag("span", tag("label", "where ", column), ends, class_="range")
