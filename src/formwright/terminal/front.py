"""The front of a study as a table."""

from collections.abc import Mapping

from rich.table import Table

from formwright.arch.writer import short
from formwright.study import Study
from formwright.study.outcome import Baseline, read_outcome
from formwright.terminal.words import figure, table, with_unit
from formwright.trial import Trial


def front_table(study: Study, most: int = 20) -> Table:
    """The front beside the baseline."""
    names = [objective.name for objective in study.objectives]
    given = study.strategy_name == "given"  # members that are known by their names
    what = "member" if given else "layers"
    beside = [] if "params" in names else ["params"]
    heads = [with_unit(name) for name in (*names, *beside)]
    shown = table("trial", *heads, what, right=tuple(heads))

    def cells(values: Mapping[str, float]) -> list[str]:
        return [figure(name, values[name]) if name in values else "" for name in (*names, *beside)]

    rows = study.front
    step = max(1, -(-len(rows) // most))
    for trial in rows[::step]:
        arch = study.member(trial)
        layers = f"{short(arch)} {arch.backbone.width}" if hasattr(arch, "backbone") else ""
        if given and trial.made_by:
            drawn = trial.control  # which says nothing of what it is
            layers = f"{trial.made_by}: {layers}" if drawn else trial.made_by
        shown.add_row(str(trial.number), *cells(trial.values), layers)
    for rival in _beside(study, rows):
        shown.add_row("rival", *cells(rival.values), rival.name)
    return shown


def _beside(study: Study, front: list[Trial]) -> list[Baseline]:
    """The rivals as they were evaluated on the rung of the front."""
    rung = front[0].rung if front else 0
    trials = [t for t in study.trials if t.rival and t.done and t.rung == rung]
    if trials:
        return [Baseline(t.note, t.decisions["rival"], t.arch, t.values) for t in trials]
    baseline = read_outcome(study.folder).baseline
    return [baseline.at(rung)] if baseline is not None and baseline.values else []
