"""Two models beside each other, value by value: what differs, and what that is worth.

A difference is called better or worse only where it lies outside both intervals, and between models
that were trained alike. Everything else is said as what it is: a figure.
"""

from collections.abc import Mapping
from math import isfinite, nan
from typing import Literal, NamedTuple

from formwright.report.words import between, figure
from formwright.study.outcome import Baseline
from formwright.trial import Objective, Trial

Verdict = Literal["better", "worse", "level", "unlike", "unsure", ""]

# Counted, so that any difference is a difference.
EXACT = {"params", "decoder_params", "flops"}
# They say what a model takes, however long it was trained.
_COSTS = {*EXACT, "latency", "memory", "latency_ratio"}
_LEVEL = 0.005  # a difference in quality that other seeds may take back, as a share of it


class Sized(NamedTuple):
    """A value and the 95 % interval around it, whose ends are the value where there is none."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Mapping[str, float], name: str) -> "Sized":
        """A value of a trial or a baseline."""
        value = values[name]
        return cls(value, values.get(f"{name}_low", value), values.get(f"{name}_high", value))

    @property
    def known(self) -> bool:
        """Whether there is an interval at all."""
        return self.low < self.high

    @property
    def words(self) -> str:
        """The value and its interval."""
        shown = figure(self.value)
        return f"{shown} ({between(self.low, self.high)})" if self.known else shown


class Comparison(NamedTuple):
    """One value of a trial beside a baseline's."""

    name: str
    ours: Sized
    theirs: Sized
    objective: Objective | None  # None where the value is no objective
    alike: bool = True  # whether both were trained alike

    @property
    def found(self) -> float:
        """Of the trial."""
        return self.ours.value

    @property
    def baseline(self) -> float:
        """Of what it is held against."""
        return self.theirs.value

    @property
    def change(self) -> float:
        """How far it is from the baseline, as a share of it; NaN where that has no meaning."""
        return self.found / self.baseline - 1 if self.baseline else nan

    @property
    def verdict(self) -> Verdict:
        """Whether it is better or worse, as far as that can be said; nothing for no objective."""
        if self.objective is None or self.found == self.baseline:
            return ""
        if self.name not in _COSTS and not self.alike:
            return "unlike"
        if self.name not in EXACT and not (self.ours.known and self.theirs.known):
            return "unsure"
        if self.ours.low <= self.theirs.high and self.theirs.low <= self.ours.high:
            return "level"
        if self.name not in _COSTS and abs(self.found - self.baseline) < _LEVEL * abs(
            self.baseline
        ):
            return "level"
        lower = self.found < self.baseline
        return "better" if lower == (self.objective.direction == "min") else "worse"

    @property
    def words(self) -> str:
        """The difference as people say it, with what it is worth."""
        if self.change != self.change:
            return ""
        if self.change == 0:
            return "equal"
        said = f"{abs(self.change):.1%} {'more' if self.change > 0 else 'less'}"
        remark = _REMARKS.get(self.verdict)
        return f"{said} ({remark})" if remark else said


_REMARKS: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "level": "within the interval: level",
    "unlike": "trained otherwise: not compared",
    "unsure": "no interval: may be chance",
}


def comparisons(
    trial: Trial, baseline: Baseline, objectives: tuple[Objective, ...], leave: set[str]
) -> list[Comparison]:
    """Every value that both have, objectives first; those named in ``leave`` are left out."""
    named = {objective.name: objective for objective in objectives}
    others = (name for name in trial.values if not name.endswith(("_low", "_high")))
    names = [*named, *(name for name in others if name not in named and name not in leave)]
    theirs, alike = baseline.at(trial.rung).values, trained_alike(trial, baseline)
    return [
        Comparison(
            name, Sized.of(trial.values, name), Sized.of(theirs, name), named.get(name), alike
        )
        for name in names
        if name in trial.values and isfinite(theirs.get(name, nan))
    ]


def trained_alike(trial: Trial, baseline: Baseline) -> bool:
    """Whether the baseline was evaluated on the trial's rung; by their steps where no rung is."""
    if baseline.rungs:
        return str(trial.rung) in baseline.rungs
    ours, theirs = trial.values.get("steps", trial.steps), baseline.values.get("steps")
    return ours is None or theirs is None or ours == theirs
