"""The frozen records that studies and strategies share: objectives, proposals, trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any, Literal

from formwright.errors import InputError

State = Literal["waiting", "running", "done", "failed"]
Direction = Literal["min", "max"]
Key = frozenset[tuple[str, Any]]


@dataclass(frozen=True)
class Objective:
    """Something to make small or large: ``Objective("latency", "min")``."""

    name: str
    direction: Direction = "min"

    def __post_init__(self) -> None:
        if self.direction not in ("min", "max"):
            raise InputError(
                f"objective {self.name!r} has direction {self.direction!r}; it must be min or max."
            )

    @property
    def sign(self) -> int:
        """What a value is multiplied with so that smaller is better."""
        return 1 if self.direction == "min" else -1


@dataclass(frozen=True)
class Proposal:
    """What a strategy wants tried.

    Args:
        decisions: Where in the space it lies.
        parents: Numbers of the trials it was made from.
        rung: How far to train it: 0 is the first, cheapest stage.
        continues: Number of the trial whose training it carries on; None starts afresh.
        note: How it came about, in a word or two.
    """

    decisions: Mapping[str, Any]
    parents: tuple[int, ...] = ()
    rung: int = 0
    continues: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Trial:
    """One thing tried. A finished trial never changes.

    Args:
        number: Place in the study, from 0 without gaps.
        decisions: Where in the space it lies.
        arch: Id of the architecture; empty where a study has none.
        state: ``done`` has every objective; ``failed`` has a reason.
        values: Objective name to value, and whatever else was measured.
        reason: Why it failed, in one sentence.
        parents: Numbers of the trials it was made from.
        rung: Stage of training.
        continues: Number of the trial whose training it carried on.
        note: How the strategy came to it.
        seconds: What trying it cost.
    """

    number: int
    decisions: Mapping[str, Any]
    arch: str = ""
    state: State = "waiting"
    values: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    parents: tuple[int, ...] = ()
    rung: int = 0
    continues: int | None = None
    note: str = ""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether it has a result that counts."""
        return self.state == "done"

    @property
    def finished(self) -> bool:
        """Whether nothing about it can change any more."""
        return self.state in ("done", "failed")

    @cached_property
    def key(self) -> Key:
        """Equal for equal decisions. A pending trial is asked for it again and again."""
        return key_of(self.decisions)

    def costs(self, objectives: Sequence[Objective]) -> tuple[float, ...]:
        """Its values with smaller always better."""
        return tuple(objective.sign * self.values[objective.name] for objective in objectives)


def key_of(decisions: Mapping[str, Any]) -> Key:
    """Equal for equal decisions, in whatever order and from JSON or not."""
    try:
        return frozenset(decisions.items())
    except TypeError:  # lists, as they come from JSON
        pairs = ((k, tuple(v) if isinstance(v, list) else v) for k, v in decisions.items())
        return frozenset(pairs)


def usable(values: Mapping[str, float], objectives: Sequence[Objective]) -> str:
    """Why these values cannot count, in one sentence; empty when they can."""
    for objective in objectives:
        if objective.name not in values:
            return f"no value for {objective.name!r} was given."
        value = values[objective.name]
        if not isfinite(value):
            return f"{objective.name} came out as {value}."
    return ""
