"""What stands beside the trials: the baseline they are held against, and the result in words."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from formwright.errors import StorageError
from formwright.files import check_sealed, write_sealed
from formwright.study.checking import DEEPEST, too_deep

_FILE = "outcome.json"


@dataclass(frozen=True)
class Baseline:
    """A hand-designed architecture, evaluated as the trials were.

    Args:
        name: What to call it: ``GPT-2 shape``.
        notation: The architecture on one line.
        arch: Its id.
        values: What was measured of it, by the names that trials use.
        rungs: The same for each rung, by its number; ``values`` are those of the highest.
    """

    name: str
    notation: str
    arch: str
    values: Mapping[str, float]
    rungs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def at(self, rung: int) -> "Baseline":
        """The baseline as it was evaluated on a rung: like is compared with like."""
        return replace(self, values=self.rungs.get(str(rung), self.values))


@dataclass(frozen=True)
class Outcome:
    """Baseline and result of a search.

    Args:
        baseline: What the search is held against; None where there is none.
        headline: What was found, in a sentence; empty while the search runs.
        chosen: Number of the trial that the headline speaks of.
        facts: Figures behind the headline, such as ``speedup``, ``speedup_low``.
        trials: How many had ended when the headline was written; None where that cannot change.
        rivals: Every hand-designed model as it was evaluated; ``baseline`` is the best of them.
        notes: What else a reader of the headline must know, a sentence each.
    """

    baseline: Baseline | None = None
    headline: str = ""
    chosen: int | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    trials: int | None = None
    rivals: tuple[Baseline, ...] = ()
    notes: tuple[str, ...] = ()


def write_outcome(folder: Path, outcome: Outcome) -> None:
    """Put it beside the record."""
    write_sealed(folder / _FILE, json.dumps(asdict(outcome), indent=1).encode())


def read_outcome(folder: Path) -> Outcome:
    """What was written; an empty outcome where nothing was."""
    path = folder / _FILE
    try:
        check_sealed(path)
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if too_deep(data):
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        baseline, rivals = data.pop("baseline"), data.pop("rivals", ())
        found = Outcome(
            baseline=Baseline(**baseline) if baseline else None,
            rivals=tuple(Baseline(**rival) for rival in rivals),
            notes=tuple(data.pop("notes", ())),
            **data,
        )
        _check(found)
        return found
    except FileNotFoundError:
        return Outcome()
    except (
        StorageError,
        OSError,
        ValueError,
        RecursionError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        message = f"{path} cannot be read ({error}); delete it to go on without."
        raise StorageError(message) from None


def _check(found: Outcome) -> None:
    """Raise ``ValueError`` where something is not what it should be."""
    for baseline in (*found.rivals, *([found.baseline] if found.baseline else [])):
        tables = (baseline.values, *baseline.rungs.values())
        words = (baseline.name, baseline.notation, baseline.arch)
        if not all(map(_numbers, tables)) or not all(isinstance(word, str) for word in words):
            raise ValueError("a baseline in it is damaged")
        if not all(rung.isdecimal() and len(rung) < 9 for rung in baseline.rungs):
            raise ValueError("a baseline in it is damaged")
    whole = [n is None or type(n) is int for n in (found.chosen, found.trials)]
    said = (found.headline, *found.notes)
    if not all(whole) or not all(isinstance(w, str) for w in said) or not _numbers(found.facts):
        raise ValueError("what it says of the result is damaged")


def _numbers(table: Any) -> bool:
    return isinstance(table, Mapping) and all(
        type(value) in (int, float) and isfinite(value) for value in table.values()
    )
