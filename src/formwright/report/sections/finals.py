"""The finals: finalists and rivals that were trained alike, and how the budget was spent."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from formwright.arch import Architecture
from formwright.arch.writer import short
from formwright.report.html import Safe, joined, table_html, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import figure, readable
from formwright.trial import Trial


class Entrant(NamedTuple):
    """A model of the finals."""

    name: str
    trial: Trial
    announced: bool


class FinalsInfo(NamedTuple):
    """Who took part, the best first, and what was planned."""

    entrants: list[Entrant]
    values: list[str]  # objectives, with their intervals where there are some
    plan: dict[str, Any]


def finals_info(material: Material) -> FinalsInfo | None:
    """None where nothing was trained to the end."""
    rungs = [trial.rung for trial in material.trials if trial.final and trial.done]
    if not rungs:
        return None
    first = material.objectives[0]
    here = [trial for trial in material.trials if trial.rung == max(rungs) and trial.done]
    entrants = [
        Entrant(
            trial.note if trial.rival else f"trial {trial.number}",
            trial,
            trial.number == material.outcome.chosen,
        )
        for trial in sorted(here, key=lambda trial: first.sign * trial.values[first.name])
    ]
    names = [objective.name for objective in material.objectives]
    plans = material.phase("plans") or [{}]
    return FinalsInfo(entrants, names, plans[-1])


@section("finals", "Finals")
def finals_html(material: Material) -> Safe | None:
    """The section: a table, and the plan."""
    info = finals_info(material)
    if info is None:
        return None
    heads = ["", *map(readable, info.values), "parameters", "steps", "last doubling", "layers"]
    rows = [_row(material, info, entrant) for entrant in info.entrants]
    steps = info.entrants[0].trial.steps
    begun = begun_with([entrant.trial for entrant in info.entrants])
    said = (
        f"Each was trained {begun} for up to {steps:,} steps to a rate of zero, its best "
        "weights kept. The result stands on these figures alone."
        if steps
        else f"Each was trained {begun} to the end."
    )
    return joined(
        [
            tag("p", said),
            table_html(heads, rows, "figures tight"),
            tag("p", _planned(info.plan), class_="quiet") if info.plan else None,
        ]
    )


def begun_with(trials: Iterable[Trial]) -> str:
    """What the models of finals began with, in words."""
    taken_over = any(trial.values.get("inherited") for trial in trials)
    return "on from the weights that it had" if taken_over else "from new weights"


def _row(material: Material, info: FinalsInfo, entrant: Entrant) -> Safe:
    trial = entrant.trial
    cells: list[object] = [tag("th", entrant.name + (" (to take)" if entrant.announced else ""))]
    cells += [tag("td", _with_interval(trial, name)) for name in info.values]
    params = trial.values.get("params")
    cells.append(tag("td", f"{params:,.0f}" if params else ""))
    cells.append(tag("td", f"{trial.values.get('steps', trial.steps or 0):,.0f}"))
    cells.append(tag("td", figure(trial.values["slope"]) if "slope" in trial.values else ""))
    arch = material.architecture(trial)
    cells.append(tag("td", _layers(arch) if arch is not None else ""))
    return tag("tr", cells)


def _with_interval(trial: Trial, name: str) -> str:
    low, high = trial.interval(name)
    shown = figure(trial.values[name])
    return shown if low == high else f"{shown} ({figure(low)} to {figure(high)})"


def _layers(arch: Architecture) -> str:
    return f"{short(arch)} {arch.backbone.width}"


def _planned(plan: dict[str, Any]) -> str:
    stages = ", ".join(f"{steps:,}" for steps in plan.get("stages", []))
    return (
        f"Planned: about {plan.get('trials', 0):,} trials in stages of {stages} steps; finals of "
        f"about {plan.get('steps', 0):,} steps."
    )
