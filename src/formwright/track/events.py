"""What of a training and of a search is sent to trackers."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any, Protocol

from formwright.track.base import Behind, Numbers, Warn, tracker_class
from formwright.trial import Objective, Trial

Log = Callable[[Numbers, int], None]


class TrialEvent(Protocol):
    """What a search tells: ``study.Event`` is one."""

    @property
    def kind(self) -> str:
        """``finished`` when a trial has ended."""

    @property
    def trial(self) -> Trial | None:
        """Which."""


def said(sentence: str) -> None:
    """The usual way to warn."""
    print(f"formwright: warning: {sentence}", file=sys.stderr, flush=True)


@contextmanager
def tracked(
    names: Sequence[str],
    folder: Path,
    about: Mapping[str, Any],
    warn: Warn = said,
    places: Mapping[str, Path] | None = None,
) -> Iterator[Log]:
    """Give what takes numbers for all trackers of these names.

    Args:
        names: Of trackers; an unknown one, or one that is not installed, is refused here.
        folder: Of the run.
        about: What the run is.
        warn: Told of each tracker that fails, once.
        places: Folders that trackers write to in place of their usual ones.
    """
    classes = [(name, tracker_class(name)) for name in dict.fromkeys(names)]
    behind = [Behind(cls((places or {}).get(name, folder), about), warn) for name, cls in classes]

    def log(numbers: Numbers, step: int) -> None:
        for one in behind:
            one.log(numbers, step)

    try:
        yield log
    finally:
        for one in behind:
            one.close()


def training_listener(log: Log) -> Callable[[dict[str, Any]], None]:
    """Takes the events of a training; later seeds have a name of their own."""
    ended = 0

    def heard(event: dict[str, Any]) -> None:
        nonlocal ended
        kind = event["kind"]
        if kind == "end":
            ended += 1
        if kind in ("step", "scores"):
            before = f"seed-{ended}/{kind}" if ended else kind
            floats = {k: v for k, v in event.items() if isinstance(v, float)}
            log({f"{before}/{name}": value for name, value in floats.items()}, event["step"])

    return heard


def search_listener(
    log: Log, objectives: Sequence[Objective], before: Sequence[Trial] = ()
) -> Callable[[TrialEvent], None]:
    """Takes the events of a search: the values of each trial, and the best so far.

    Args:
        log: Where numbers go.
        objectives: What counts.
        before: Trials of earlier sessions.
    """
    best = {objective.name: inf for objective in objectives}

    def seen(trial: Trial) -> None:
        for objective in objectives:
            value = trial.values.get(objective.name)
            if value is not None and trial.done and not trial.rival:
                best[objective.name] = min(best[objective.name], objective.sign * value)

    for trial in before:
        seen(trial)

    def heard(event: TrialEvent) -> None:
        trial = event.trial
        if event.kind != "finished" or trial is None:
            return
        seen(trial)
        kind = "rival" if trial.rival else "final" if trial.final else "trial"
        numbers = {f"{kind}/{name}": value for name, value in trial.values.items()}
        numbers[f"{kind}/seconds"] = trial.seconds
        numbers["search/failed"] = float(trial.state == "failed")
        numbers |= {f"best/{o.name}": o.sign * best[o.name] for o in objectives}
        log(numbers, trial.number)

    return heard


@contextmanager
def tracked_search(
    names: Sequence[str],
    folder: Path,
    meta: Mapping[str, Any],
    before: Sequence[Trial] = (),
    warn: Warn = said,
) -> Iterator[Callable[[TrialEvent], None]]:
    """Give what takes the events of a search for trackers of these names.

    Args:
        names: Of trackers; with none, nothing is done.
        folder: Of the study.
        meta: What it was begun with.
        before: Trials of earlier sessions.
        warn: Told of each tracker that fails, once.
    """
    kept = ("recipe", "task", "seed", "command", "hyperparameters")
    about = {"out": str(folder), **{name: meta[name] for name in kept if name in meta}}
    objectives = [Objective(*pair) for pair in meta["objectives"]]
    with tracked(names, folder, about, warn) as log:
        yield search_listener(log, objectives, before) if names else lambda event: None
