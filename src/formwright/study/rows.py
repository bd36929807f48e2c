"""Trials as rows of the record, and back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formwright.study.checking import DEEPEST, too_deep
from formwright.trial import Trial

COLUMNS = (
    "number, arch, state, reason, rung, steps, train_seconds, continues, origin, note, seconds, "
    "original, decisions, results, parents, details"
)
FINISH = (
    "UPDATE trials SET state = ?, results = ?, reason = ?, seconds = ?, finished = ?, clock = ?, "
    "expires = NULL WHERE number = ? AND state IN ('waiting', 'running')"
)
ADD = (
    "INSERT INTO trials (number, decisions, arch, notation, parents, rung, steps, train_seconds, "  # noqa: S608  # our own words
    "continues, origin, note, details, original, created, state, results, reason, seconds, "
    f"finished, clock, worker) VALUES ({', '.join('?' * 21)})"
)


@dataclass(frozen=True)
class Addition:
    """A trial to be added, with what the record keeps beside it.

    Args:
        trial: Its state may already be final: a copy of an earlier one is.
        decisions: The trial's, as JSON.
        notation: The architecture in words.
    """

    trial: Trial
    decisions: str
    notation: str = ""


def dumped(value: Any) -> str:
    """Plain JSON; numbers of numpy and the like become Python's."""
    return _encode(value)


def written(decisions: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Decisions as JSON, and as they will be read from it."""
    text = _encode(dict(decisions))
    if all(type(value) in (int, float, str) for value in decisions.values()):
        return text, dict(decisions)  # shares its names with all others, and saves memory
    return text, _frozen(json.loads(text))


def as_stored(details: Mapping[str, Any]) -> dict[str, Any]:
    """Details as they will be read back."""
    return json.loads(_encode(dict(details))) if details else {}


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{value!r} cannot be stored; give numbers, words, lists or mappings")


_encode = json.JSONEncoder(separators=(",", ":"), default=_plain).encode  # made once: it is slow


def _frozen(value: Any) -> Any:
    """JSON has lists only, decisions tuples, at any depth."""
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return {name: _frozen(item) for name, item in value.items()}
    return value


def trials_of(rows: list[tuple[Any, ...]]) -> list[Trial]:
    """Rows as trials; all their JSON is read in one go, which is several times faster."""
    decisions, results, parents, details = (
        json.loads(f"[{','.join([row[i] for row in rows])}]") for i in (12, 13, 14, 15)
    )
    nested = any("[" in row[12] for row in rows)
    for values, i in ((decisions, 12), (details, 15)):
        for value, row in zip(values, rows, strict=True):
            # Most have few brackets, and are not walked over.
            if row[i].count("[") + row[i].count("{") > DEEPEST and too_deep(value):
                raise ValueError(f"trial {row[0]} is nested more than {DEEPEST} deep")
    return [
        Trial(
            number, _frozen(d) if nested else d, arch, state, v, reason, tuple(p), rung, steps,
            train_seconds, continues, origin, note, more, seconds, original,
        )
        for (number, arch, state, reason, rung, steps, train_seconds, continues, origin, note,
             seconds, original, *_), d, v, p, more in zip(
            rows, decisions, results, parents, details, strict=True
        )
    ]  # fmt: skip


def finish_row(trial: Trial, now: float, clock: float) -> tuple[Any, ...]:
    result = dumped(dict(trial.values))
    return (trial.state, result, trial.reason, trial.seconds, now, clock, trial.number)


def add_row(
    added: Addition, now: float, clock: float, running: bool, worker: str
) -> tuple[Any, ...]:
    trial, final = added.trial, added.trial.finished
    running = running and trial.original is None
    waits = "running" if running else "waiting"
    return (
        trial.number,
        added.decisions,
        trial.arch,
        added.notation,
        dumped(trial.parents) if trial.parents else "[]",
        trial.rung,
        trial.steps,
        trial.train_seconds,
        trial.continues,
        trial.origin,
        trial.note,
        dumped(dict(trial.details)) if trial.details else "{}",
        trial.original,
        now,
        trial.state if final else waits,
        dumped(dict(trial.values)) if final else "{}",
        trial.reason,
        trial.seconds,
        now if final else None,
        clock if final else None,
        worker if running else None,
    )


def plain_values(values: Mapping[str, Any]) -> dict[str, float]:
    """What was measured, as finite floats; anything else is left out."""
    kept = {}
    for name, value in values.items():
        number = float(value)
        if number - number == 0.0:  # neither infinite nor NaN
            kept[str(name)] = number
    return kept
