"""Runs that are to be compared: read, put into groups, and asked whether they can be compared."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from formwright.errors import InputError
from formwright.report.material import Material, gather
from formwright.report.where import target_words
from formwright.report.words import measured, plain_name
from formwright.study import Study
from formwright.trial import Objective, Trial

_CALIBRATED = {"name", "reference", "reference_ms"}  # of a target: no other way to run a model
_ALIKE = ("recipe", "task", "space", "strategy", "hyperparameters", "rules", "start")

Fidelity = tuple[int, int | None]  # rung and steps: trials of one were evaluated alike


class Run(NamedTuple):
    """One run."""

    name: str
    material: Material

    @property
    def seed(self) -> int:
        """Of its study."""
        return int(self.material.meta["seed"])

    @property
    def seconds(self) -> float:
        """What its trials cost, finals not counted."""
        return sum(trial.seconds for trial in self.material.trials if not trial.final)


class Group(NamedTuple):
    """Runs that differ in their seed alone."""

    name: str
    runs: list[Run]


@dataclass(frozen=True)
class Runs:
    """Everything that a comparison is made from.

    Args:
        runs: At least two, in the order in which they were named.
    """

    runs: Sequence[Run]

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """Of the first run."""
        return self.runs[0].material.objectives

    @property
    def quality(self) -> Objective:
        """What counts first."""
        return self.objectives[0]

    @cached_property
    def groups(self) -> list[Group]:
        """Runs that differ by their seed alone, in the order of the first of each group."""
        found: dict[str, list[Run]] = {}
        for run in self.runs:
            found.setdefault(_key(run.material), []).append(run)
        names = _group_names(list(found.values()))
        return [Group(name, runs) for name, runs in zip(names, found.values(), strict=True)]

    @cached_property
    def obstacles(self) -> list[str]:
        """Why qualities cannot be compared, a sentence each; empty where they can."""
        found = []
        for what, of in (("task", _task), ("metric", _metric)):
            if words := _unlike(self.runs, what, of):
                found.append(f"{words} Their qualities are of different things.")
        if not found and self.fidelity is None:
            found.append(
                "No two runs have trials that were trained for the same number of steps, so their "
                "trials cannot be compared one by one."
            )
        return found

    @cached_property
    def cautions(self) -> list[str]:
        """What else differs, and what that forbids."""
        found = []
        if self.obstacles:
            return self._unfinished()
        if words := _unlike(self.runs, "objectives", _objectives):
            found.append(f"{words} Only {plain_name(self.quality.name)} is compared.")
        if words := _unlike(self.runs, "target", _target):
            found.append(f"{words} Latencies are not compared.")
        if words := _unlike(self.runs, "limits", _limits):
            found.append(f"{words} Each front keeps its own limits.")
        if (
            self.fidelity is not None
            and self.fidelity[1] is None
            and _unlike(self.runs, "recipe", _evaluation)
        ):
            found.append(
                "How long trials were trained is not on record, and the recipes differ: the "
                "comparison holds only if they were evaluated alike."
            )
        return [*found, *self._unfinished()]

    def _unfinished(self) -> list[str]:
        found = []
        for run in self.runs:
            if not run.material.ended:
                found.append(f"{run.name} is still going: it is taken as it stands.")
            elif not any(trial.done for trial in run.material.trials):
                found.append(f"{run.name} has no result: all its trials failed.")
        return found

    @property
    def by_front(self) -> bool:
        """Whether hypervolumes can be compared: same objectives, and one target for latency."""
        if len(self.objectives) < 2 or _unlike(self.runs, "objectives", _objectives):
            return False
        timed = any(objective.name == "latency" for objective in self.objectives)
        return not (timed and _unlike(self.runs, "target", _target))

    @cached_property
    def fidelity(self) -> Fidelity | None:
        """Rung and steps at which every run has trials, the furthest of several; None without."""
        known = [set(_fidelities(run.material).values()) for run in self.runs]
        each = [levels for levels in known if levels]
        common = set.intersection(*each) if each else set()
        return max(common, key=lambda pair: (pair[1] or 0, pair[0]), default=None)

    def counted(self, run: Run) -> list[Trial]:
        """The trials of a run that are compared."""
        known = _fidelities(run.material)
        return [t for t in run.material.trials if known.get(t.number, ()) == self.fidelity]


def gather_runs(folders: Sequence[str | Path]) -> Runs:
    """Read the studies of some folders; they may be running.

    Raises:
        InputError: For fewer than two, or one that is named twice.
    """
    paths = [Path(folder) for folder in folders]
    if len(paths) < 2:
        raise InputError(
            f"{len(paths)} run was given; a comparison needs two or more: formwright compare A B."
        )
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise InputError(f"{path} is named twice; name each run once.")
        seen.add(path.resolve())
    found = []
    for path, name in zip(paths, _short_names(paths), strict=True):
        study = Study.open(path)
        try:
            found.append(Run(name, gather(study)))
        finally:
            study.close()
    return Runs(found)


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Names of folders; with those above where two would be alike."""
    for depth in range(1, 6):
        names = ["/".join(path.resolve().parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _counts(trial: Trial) -> bool:
    return trial.done and not trial.final and not trial.rival


def _fidelities(material: Material) -> dict[int, Fidelity]:
    """Rung and steps of every trial that may count, by its number.

    Where an estimator decided on the steps, those that were taken tell trainings apart, unless
    they differ within a rung: then all had the same time.
    """
    counted = [trial for trial in material.trials if _counts(trial)]
    taken: dict[int, set[float | None]] = {}
    for trial in counted:
        taken.setdefault(trial.rung, set()).add(trial.values.get("steps"))
    found = {}
    for trial in counted:
        (*several, one) = taken[trial.rung]
        steps = None if several or one is None else round(one)
        found[trial.number] = (trial.rung, steps if trial.steps is None else trial.steps)
    return found


# --- what runs have in common -----------------------------------------------------------


def _task(material: Material) -> str:
    return str(material.meta.get("task") or "")


def _metric(material: Material) -> str:
    first = material.objectives[0]
    return f"{first.name}, {first.direction}"


def _evaluation(material: Material) -> str:
    """What may decide how trials are evaluated."""
    numbers = material.meta.get("hyperparameters")
    known = dict(numbers) if isinstance(numbers, Mapping) else {}
    known.pop("strategy", None)  # it decides what is tried, not how
    return json.dumps([material.meta.get("recipe"), known], sort_keys=True, default=str)


def _objectives(material: Material) -> str:
    return ", ".join(sorted(f"{o.name} {o.direction}" for o in material.objectives))


def _limits(material: Material) -> str:
    limits = sorted(material.limits.items())
    return ", ".join(f"{plain_name(name)} at most {measured(name, most)}" for name, most in limits)


def _target(material: Material) -> str:
    target = material.meta.get("target")
    if not isinstance(target, Mapping):
        return "none"
    return f"{target_words(target)}, machine {target.get('fingerprint') or 'unknown'}"


def _unlike(runs: Sequence[Run], what: str, of: Callable[[Material], str]) -> str:
    """The first two runs that differ in something, in a sentence; empty where none do."""
    first = of(runs[0].material)
    for run in runs[1:]:
        if of(run.material) != first:
            return (
                f"The {what} differ{'s' * (not what.endswith('s'))}: {runs[0].name} has "
                f"{first or 'none'}, {run.name} has {of(run.material) or 'none'}."
            )
    return ""


def _key(material: Material) -> str:
    """Equal for runs that differ in their seed alone."""
    meta = material.meta
    about: dict[str, Any] = {name: meta.get(name) for name in _ALIKE}
    target = meta.get("target")
    if isinstance(target, Mapping):
        about["target"] = {k: v for k, v in target.items() if k not in _CALIBRATED}
    return json.dumps(about, sort_keys=True, default=str)


def _group_names(groups: Sequence[Sequence[Run]]) -> list[str]:
    """What tells groups apart: recipe, strategy, space, metric; else the first run's name."""
    parts = [[str(g[0].material.meta.get("recipe") or "")] for g in groups]
    for of in (_strategy, _space, _metric):
        names = [" · ".join(filter(None, words)) for words in parts]
        if len(set(names)) == len(names) and all(names):
            return names
        more = [of(group[0].material) for group in groups]
        if len(set(more)) > 1 or not all(names):
            parts = [[*words, one] for words, one in zip(parts, more, strict=True)]
    names = [" · ".join(filter(None, words)) for words in parts]
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({group[0].name})" for name, group in zip(names, groups, strict=True)]


def _strategy(material: Material) -> str:
    return str(material.meta["strategy"]["name"])


def _space(material: Material) -> str:
    space = material.meta.get("space")
    return str(space.get("name") or "") if isinstance(space, Mapping) else ""
