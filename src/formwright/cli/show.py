"""``formwright show``: where a search stands and what it has found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from formwright.study import Study
    from formwright.study.outcome import Outcome
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
    from formwright.terminal.front import front_table

    state = study.state
    outcome = read_outcome(study.folder)
    failed = f", {state.failed} failed" if state.failed else ""
    print(f"{state.done} trials done{failed}, {state.seconds:.0f} s; {_state(study, outcome)}")
    console().print(front_table(study))
    control = _control(study)
    if control:
        cost = f"{control['seconds']:.0f} s of" if control["seconds"] >= 1 else control["trials"]
        random, found = (share_words(control[name]) for name in ("random", "search"))
        print(
            wrapped(
                f"random search at equal cost ({cost} trials) covers {random} {control['box']}, "
                f"this search {found}"
            )
        )
    for text in (outcome.headline, *outcome.notes):
        if text:
            print(wrapped(text))


def _covered(share: float) -> str:
    """A hypervolume, which is a share of what could be covered."""
    return f"{share:.3f}" if share >= 0.0005 else "none, no better than the worst that was seen"


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


def _control(study: "Study") -> dict[str, Any] | None:
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
    about = {"seconds": seconds, "trials": trials, "box": info.box}
    return {**about, "random": random, "search": found}
