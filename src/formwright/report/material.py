"""Everything a report is made from, read from a study once.

A page holds at most ``MOST`` trials: the front, the ancestors of its members, the latest failures
and, evenly over the search, as many others as there is room for.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, parse
from formwright.errors import FormwrightError
from formwright.space import Space
from formwright.study import Progress, Study
from formwright.study.checking import too_deep
from formwright.study.front import counting, eligible
from formwright.study.front import front as front_of
from formwright.study.job import member_of
from formwright.study.outcome import Outcome, read_outcome
from formwright.trial import Objective, Trial

MOST = 20_000  # trials in one page
_FAILURES = 1000  # of these are failed ones
_ANCESTORS = 2000


@dataclass(frozen=True)
class Material:
    """A study as it was at one moment.

    Args:
        name: Of the study's folder.
        meta: What the study was begun with.
        objectives: What counts.
        limits: Name of a value to the most it may be.
        trials: Every trial, by number.
        front: The best of them.
        outcome: Baseline and headline.
        state: How far it has come.
        space: What is searched; None where it is of a kind that cannot be restored.
        notations: Of the trials that the page holds.
        folder: Of the study; None where there is none.
    """

    name: str
    meta: Mapping[str, Any]
    objectives: tuple[Objective, ...]
    limits: Mapping[str, float]
    trials: Sequence[Trial]
    front: Sequence[Trial]
    outcome: Outcome
    state: Progress
    space: Space | None = None
    notations: Mapping[int, str] = field(default_factory=dict)
    folder: Path | None = None

    @cached_property
    def kept(self) -> list[Trial]:
        """The trials that the page holds, by number."""
        return kept_trials(self.trials, self.front)

    @cached_property
    def compared(self) -> list[Trial]:
        """The trials that are compared, limits not looked at: what charts show."""
        return counting(self.trials, self.objectives, {})

    @cached_property
    def counting(self) -> list[Trial]:
        """Those among ``compared`` that keep the limits."""
        return eligible(self.compared, self.objectives, self.limits)

    @cached_property
    def chosen(self) -> Trial | None:
        """The trial that the headline speaks of, else the best in the first objective.

        Where the model to take is a rival, the headline speaks of the best that was found.
        """
        number = self.outcome.chosen
        known = number is not None and 0 <= number < len(self.trials)
        if known and not self.trials[number or 0].rival:
            return self.trials[number or 0]
        return self.front[0] if self.front else None  # fronts are sorted by the first objective

    @cached_property
    def taken(self) -> Trial | None:
        """The model to take, were it a rival; None while nothing is announced."""
        number = self.outcome.chosen
        known = number is not None and 0 <= number < len(self.trials)
        return self.trials[number or 0] if known else None

    @cached_property
    def worked(self) -> float:
        """Seconds that the search was worked on, whatever they went into."""
        found = self._read("clock.json")
        return max(self.state.seconds, found if isinstance(found, int | float) else 0.0)

    @property
    def ended(self) -> bool:
        """Whether no trial is open."""
        return not (self.state.waiting or self.state.running or self.state.coordinator)

    def architecture(self, trial: Trial) -> Architecture | None:
        """The architecture of a trial; None where it has none that can be drawn."""
        if trial.number not in self._architectures:
            self._architectures[trial.number] = self._resolved(trial)
        return self._architectures[trial.number]

    def phase(self, name: str) -> Any:
        """What a phase of the recipe has kept; None where it has nothing, or cannot be read."""
        return self._read(f"phases/{name}.json")

    def trial_file(self, trial: Trial, name: str) -> Any:
        """A JSON file of a trial's folder; None where it has none that can be read."""
        number = trial.number if trial.original is None else trial.original
        return self._read(f"trials/{number:06d}/{name}")

    def _read(self, name: str) -> Any:
        if self.folder is None:
            return None
        try:
            found = json.loads((self.folder / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        return None if too_deep(found) else found

    @cached_property
    def baseline(self) -> Architecture | None:
        """The baseline's architecture."""
        return _parsed(self.outcome.baseline.notation) if self.outcome.baseline else None

    @cached_property
    def _architectures(self) -> dict[int, Architecture | None]:
        return {}

    def _resolved(self, trial: Trial) -> Architecture | None:
        if self.space is not None:
            try:
                found = member_of(self.space, trial)
            except FormwrightError:
                return None
            if isinstance(found, Architecture):
                return found
        return _parsed(self.notations.get(trial.number, ""))


def gather(study: Study) -> Material:
    """Read a study. It may be running meanwhile."""
    state, trials = study.state, study.trials
    front = front_of(trials, study.objectives, study.rules.limits)  # of these, whatever comes next
    try:
        space: Space | None = study.space
    except FormwrightError:  # of a kind of its own: what needs it is left out
        space = None
    kept = kept_trials(trials, front)
    return Material(
        name=study.folder.resolve().name,
        meta=study.meta,
        objectives=study.objectives,
        limits=study.rules.limits,
        trials=trials,
        front=front,
        outcome=read_outcome(study.folder),
        state=state,
        space=space,
        notations={trial.number: study.notation(trial.number) for trial in kept},
        folder=study.folder,
    )


def kept_trials(trials: Sequence[Trial], front: Sequence[Trial], most: int = MOST) -> list[Trial]:
    """At most ``most`` trials, those that matter first; all where there are no more."""
    if len(trials) <= most:
        return list(trials)
    numbers = dict.fromkeys(trial.number for trial in thinned(front, most // 2))
    numbers |= dict.fromkeys(_ancestors(trials, list(numbers)))
    failed = [trial.number for trial in trials if trial.state == "failed"]
    numbers |= dict.fromkeys(failed[-_FAILURES:])
    rest = [trial for trial in trials if trial.number not in numbers]
    numbers |= dict.fromkeys(trial.number for trial in thinned(rest, most - len(numbers)))
    return [trials[number] for number in sorted(numbers)]


def thinned(trials: Sequence[Trial], most: int) -> list[Trial]:
    """At most so many, evenly from first to last."""
    if len(trials) <= most:
        return list(trials)
    return [trials[i * len(trials) // most] for i in range(max(0, most))]


def _ancestors(trials: Sequence[Trial], numbers: Iterable[int]) -> list[int]:
    found: dict[int, None] = {}
    waiting = list(numbers)
    while waiting and len(found) < _ANCESTORS:
        for parent in trials[waiting.pop(0)].parents:
            if 0 <= parent < len(trials) and parent not in found:
                found[parent] = None
                waiting.append(parent)
    return list(found)


def _parsed(words: str) -> Architecture | None:
    try:
        return parse(words)
    except (FormwrightError, RecursionError):
        return None
