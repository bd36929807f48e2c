"""``formwright show``: where a search stands and what it has found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from formwright.study import Study
    from formwright.study.outcome import Baseline, Outcome
    from formwright.trial import Trial


def run(
    run: Annotated[Path, typer.Argument(help="Folder of a search.", show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show the front of a search, running or not."""
    from formwright.cli.output import print_json
    from formwright.study import Study

    study = Study.open(run)
    if json:
        print_json(study_data(study))
    else:
        print_study(study)


def study_data(study: "Study") -> dict[str, Any]:
    """A study as plain values."""
    from dataclasses import asdict

    from formwright.study.outcome import read_outcome

    outcome = read_outcome(study.folder)
    return {
        "state": _state(study, outcome),
        "objectives": [{"name": o.name, "direction": o.direction} for o in study.objectives],
        "trials": [_trial_data(study, trial) for trial in study.trials],
        "front": [trial.number for trial in study.front],
        "baseline": asdict(outcome.baseline) if outcome.baseline is not None else None,
        "headline": outcome.headline,
        "notes": list(outcome.notes),
        "rivals": [asdict(rival) for rival in outcome.rivals],
        "chosen": outcome.chosen,
        "facts": dict(outcome.facts),
        "control": _control(study),
        "seconds": study.state.seconds,
        "out": str(study.folder),
    }


def print_study(study: "Study") -> None:
    """The front, the baseline and the result for people."""
    from formwright.cli.output import console, wrapped
    from formwright.report.words import share_words
    from formwright.study.outcome import read_outcome

    state = study.state
    outcome = read_outcome(study.folder)
    failed = f", {state.failed} failed" if state.failed else ""
    print(f"{state.done} trials done{failed}, {state.seconds:.0f} s; {_state(study, outcome)}")
    console().print(front_table(study))
    control = _control(study)
    if control:
        cost = f"{control['seconds']:.0f} s of" if control["seconds"] >= 1 else control["trials"]
        random, found = (share_words(control[name]) for name in ("random", "search"))
        what = "of the way from the worst value to the best"
        if len(study.objectives) > 1:
            what = "of the box between the worst and the best values (hypervolume)"
        print(
            wrapped(
                f"random search at equal cost ({cost} trials) covers {random} {what}, this search "
                f"{found}"
            )
        )
    for text in (outcome.headline, *outcome.notes):
        if text:
            print(wrapped(text))


def front_table(study: "Study", most: int = 20) -> "Table":
    """The front beside the baseline."""
    from formwright.arch.writer import short
    from formwright.cli.output import short_number, table

    names = [objective.name for objective in study.objectives]
    given = study.strategy_name == "given"  # members that are known by their names
    what = "member" if given else "layers"
    shown = table("trial", *names, "params", what, right=(*names, "params"))
    rows = study.front
    step = max(1, -(-len(rows) // most))
    for trial in rows[::step]:
        arch = study.member(trial)
        values = [f"{trial.values[name]:.4g}" for name in names]
        params = trial.values.get("params")
        layers = f"{short(arch)} {arch.backbone.width}" if hasattr(arch, "backbone") else ""
        if given and trial.made_by:
            drawn = trial.control  # which says nothing of what it is
            layers = f"{trial.made_by}: {layers}" if drawn else trial.made_by
        shown.add_row(str(trial.number), *values, short_number(params) if params else "", layers)
    for rival in _beside(study, rows):
        values = [f"{rival.values.get(name, float('nan')):.4g}" for name in names]
        params = rival.values.get("params")
        shown.add_row("rival", *values, short_number(params) if params else "", rival.name)
    return shown


def _beside(study: "Study", front: "list[Trial]") -> "list[Baseline]":
    """The rivals as they were evaluated on the rung of the front."""
    from formwright.study.outcome import Baseline, read_outcome

    rung = front[0].rung if front else 0
    trials = [t for t in study.trials if t.rival and t.done and t.rung == rung]
    if trials:
        return [Baseline(t.note, t.decisions["rival"], t.arch, t.values) for t in trials]
    baseline = read_outcome(study.folder).baseline
    return [baseline.at(rung)] if baseline is not None and baseline.values else []


def _state(study: "Study", outcome: "Outcome") -> str:
    if study.state.coordinator:
        return "running"
    return "finished" if outcome.headline else "stopped"


def _trial_data(study: "Study", trial: "Trial") -> dict[str, Any]:
    return {
        "number": trial.number,
        "state": trial.state,
        "id": trial.arch,
        "notation": study.notation(trial.number),
        "values": dict(trial.values),
        "rung": trial.rung,
        "steps": trial.steps,
        "origin": trial.origin,
        "note": trial.note,
        "details": dict(trial.details),
        "reason": trial.reason,
        "parents": list(trial.parents),
        "seconds": trial.seconds,
    }


def _control(study: "Study") -> dict[str, float] | None:
    """Random search against this search, both at the cost of the random trials.

    None where trials were given to be compared: their order says nothing.
    """
    if study.strategy_name == "given":
        return None
    from formwright.report.material import gather
    from formwright.report.sections.progress import progress_info

    info = progress_info(gather(study))
    if info is None or info.random is None:
        return None
    seconds = min(info.random.seconds, info.found.seconds)
    trials = min(info.random.trials, info.found.trials)
    by_time = seconds >= 1  # trials that cost nothing are compared by their number
    random, found = (
        curve.at_cost(seconds) if by_time else curve.at_trials(trials)
        for curve in (info.random, info.found)
    )
    return {"seconds": seconds, "trials": trials, "random": random, "search": found}
