"""What people call from Python: a search in one line, and what comes of it.

import formwright as fw

found = fw.search(task="classify:reviews.csv", max_latency=5.0, budget=600)
found.chosen, found.front, found.outcome.headline, found.report()
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from formwright.arch import Architecture
from formwright.errors import InputError
from formwright.recipes.life import begin, conduct
from formwright.recipes.usual import UsualSearch
from formwright.report import write_report
from formwright.space import Space
from formwright.study import Study
from formwright.study.loop import OnEvent
from formwright.study.outcome import Outcome, read_outcome
from formwright.trial import Objective, Trial


class Search(Study):
    """A study that a search has made."""

    @property
    def outcome(self) -> Outcome:
        """Rivals and result."""
        return read_outcome(self.folder)

    @property
    def chosen(self) -> Trial | None:
        """The trial to take, of which the headline speaks; its model is in the folder ``best``."""
        number = self.outcome.chosen
        return None if number is None else self.trials[number]

    def architecture(self, trial: Trial) -> Architecture:
        """The architecture of a trial."""
        found: Architecture = self.member(trial)
        return found

    def report(self, out: str | Path | None = None) -> Path:
        """Write the report and say where it is."""
        return write_report(self.folder, out)


def search(
    task: str = "stdlib",
    space: str | Space = "open",
    objectives: Sequence[Objective] = (),
    budget: float | None = 300.0,
    *,
    trials: int | None = None,
    out: str | Path = "runs/search",
    on_event: OnEvent | None = None,
    **options: Any,
) -> Search:
    """Search for architectures; calling it again with the same folder continues.

    Args:
        task: Name of a task.
        space: Name of a space, or one of your own.
        objectives: What counts; quality against latency when not given.
        budget: Seconds in all; None for no limit.
        trials: How many trials in all.
        out: Folder of the study.
        on_event: Told of every trial.
        options: Whatever else a ``UsualSearch`` takes: ``max_latency``, ``strategy``, ``seed``, ...
            A ``target`` may be given as it is typed: ``onnx,threads=2``.
    """
    folder, own = Path(out), space if isinstance(space, Space) else None
    target = options.pop("target", None)
    _check(objectives, budget)
    made = UsualSearch(
        task=task,
        space=space.name if isinstance(space, Space) else space,
        own_space=own,
        minimise=tuple(o.name for o in objectives if o.direction == "min"),
        maximise=tuple(o.name for o in objectives if o.direction == "max"),
        order=tuple(o.name for o in objectives),
        seconds=budget,
        trials=trials,
        **options,
    )
    made = made.on_target(target) if target else made
    study = begin(made, folder)
    conduct(made, study, on_event=on_event)
    study.close()
    return Search(folder, study.space)


def _check(objectives: Sequence[Objective], budget: float | None) -> None:
    """Say what is wrong before anything is made."""
    if isinstance(budget, str):
        raise InputError(f"budget={budget!r} must be a number of seconds, such as 300.")
    for given in objectives:
        if not isinstance(given, Objective):
            raise InputError(
                f"{given!r} is no objective; write formwright.Objective('loss', 'min')."
            )
