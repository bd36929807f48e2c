"""What sections about evolution share: members with all their trials, and the search replayed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from formwright.errors import FormwrightError
from formwright.report.material import Material
from formwright.strategy.blackbox import Strategy, make_strategy
from formwright.trial import FINAL, RIVAL, Trial

_EVOLVING = ("progressive", "bands", "opnas")


@dataclass(frozen=True)
class Member:
    """One gene and how far it was trained.

    Args:
        trials: From the first stage to the last it had.
    """

    trials: tuple[Trial, ...]

    @property
    def first(self) -> Trial:
        """Its first training."""
        return self.trials[0]

    @property
    def done(self) -> list[Trial]:
        """Trainings that came to an end, by stage."""
        return [trial for trial in self.trials if trial.done]


def is_evolution(material: Material) -> bool:
    """Whether a study was searched by evolution under hurdles, or by OP-NAS."""
    return _strategy(material).get("name") in _EVOLVING


def searched(material: Material) -> list[Trial]:
    """The trials that the strategy proposed."""
    return [trial for trial in material.trials if trial.origin not in (FINAL, RIVAL)]


def members_of(material: Material) -> dict[int, Member]:
    """Every member, by the number of each of its trials."""
    rows: dict[int, list[Trial]] = {}
    for trial in searched(material):
        row = [] if trial.continues is None else rows.get(trial.continues, [])
        row.append(trial)
        rows[trial.number] = row
    return {number: Member(tuple(row)) for number, row in rows.items()}


def distinct(members: Mapping[int, Member]) -> list[Member]:
    """Each member once, in the order in which they were begun."""
    return [member for number, member in members.items() if member.first.number == number]


def replayed(material: Material) -> Iterator[tuple[Strategy, Trial]]:
    """The strategy just before it learns of each trial, and the trial; nothing where it cannot."""
    about = _strategy(material)
    if material.space is None or not is_evolution(material):
        return
    try:
        options: dict[str, Any] = dict(about.get("options") or {})
        seed = int(material.meta.get("seed") or 0)
        search = make_strategy(
            str(about["name"]), material.space, material.objectives, seed, **options
        )
        for trial in searched(material):
            if not trial.finished:
                return
            yield search, trial
            search.tell(trial)
    except (FormwrightError, TypeError, ValueError):
        return


def _strategy(material: Material) -> Mapping[str, Any]:
    found = material.meta.get("strategy")
    return found if isinstance(found, Mapping) else {}
