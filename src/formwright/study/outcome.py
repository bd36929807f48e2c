"""What stands beside the trials: the baseline they are held against, and the result in words."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from formwright.errors import StorageError
from formwright.files import write_atomically

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
    write_atomically(folder / _FILE, json.dumps(asdict(outcome), indent=1).encode())


def read_outcome(folder: Path) -> Outcome:
    """What was written; an empty outcome where nothing was."""
    path = folder / _FILE
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        baseline, rivals = data.pop("baseline"), data.pop("rivals", ())
        return Outcome(
            baseline=Baseline(**baseline) if baseline else None,
            rivals=tuple(Baseline(**rival) for rival in rivals),
            notes=tuple(data.pop("notes", ())),
            **data,
        )
    except FileNotFoundError:
        return Outcome()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"{path} cannot be read ({error}); delete it to go on without."
        raise StorageError(message) from None
