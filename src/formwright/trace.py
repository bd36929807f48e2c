"""What a supernet or a search went through: one file, ``trace.jsonl``, one writer, one reader.

Each line is a JSON object whose ``kind`` says what it tells; a new panel of a report reads a kind
of its own. Those that are written here:

    space   what was searched: {"space": as in ``space_data``}
    prices  what each option costs: {"values": {decision: [price, ...]}}
    gates   how much of each option was on: {"step": 40, "values": {decision: [share, ...]}}
    stage   a stage of pruning: see ``Stage``
    found   what a method settled on: {"method": "do", "price": 0.8, "folder": "supernet/do/..."}

A line that a crash has torn, or that is not as it should be, is passed over: whoever reads must
come through, at whatever point a search was cut off.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

from formwright.files import write_atomically

FILE = "trace.jsonl"
Rows = Mapping[str, Sequence[float]]  # decision to one number per option
Alive = Mapping[str, tuple[int, ...]]  # decision to its live options


@dataclass(frozen=True)
class Look:
    """How much of each option was on at a step."""

    step: int
    values: Rows


@dataclass(frozen=True)
class Stage:
    """A stage of pruning.

    Args:
        stage: Its number; the last one stands for what is left, and has no scores.
        alive: Decision to the options that were live when the stage was scored.
        scores: Decision to {option: what is lost without it}; only of the decision looked at.
        words: What was seen and done, for people.
        errors: As scores: the standard error of each.
        accuracy: With all live blocks on.
        step: Training steps before it.
        dropped: Decision and options that end with this stage.
        certain: Whether what was kept leads what was dropped by more than noise.
        by: What decides: ``accuracy`` (scores) or ``loss`` (rises).
        rises: As scores: how much the loss of an example rises without it.
        rise_errors: As rises: the standard error of each.
        loss: With all live blocks on.
        agreement: Rank correlation of what two halves of the examples say of the options.
    """

    stage: int
    alive: Alive
    scores: Mapping[str, Mapping[int, float]]
    words: str
    errors: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    accuracy: float | None = None
    step: int = 0
    dropped: tuple[str, tuple[int, ...]] | None = None
    certain: bool = True
    by: str = "accuracy"
    rises: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    rise_errors: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    loss: float | None = None
    agreement: float | None = None

    @property
    def worth(self) -> Mapping[str, Mapping[int, float]]:
        """By what the stage decided: decision to {option: what is lost without it}."""
        return self.rises if self.by == "loss" else self.scores

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Stage":
        """The inverse of ``asdict`` after a way through JSON."""
        found = {key: data[key] for key in cls.__dataclass_fields__ if key in data}
        for key in ("scores", "errors", "rises", "rise_errors"):
            rows = found.get(key, {}).items()
            found[key] = {n: {int(o): float(v) for o, v in row.items()} for n, row in rows}
        found["alive"] = {name: tuple(map(int, row)) for name, row in data["alive"].items()}
        if found.get("dropped") is not None:
            name, options = found["dropped"]
            found["dropped"] = (name, tuple(options))
        return cls(**{**found, "stage": int(data["stage"]), "words": str(data["words"])})

    def left(self) -> dict[str, tuple[int, ...]]:
        """What is live after it."""
        found = dict(self.alive)
        if self.dropped is not None:
            name, gone = self.dropped
            found[name] = tuple(option for option in found[name] if option not in gone)
        return found


class Trace:
    """The record of one folder.

    Args:
        folder: Made when the first line is written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    # --- writing ------------------------------------------------------------------------

    def add(self, kind: str, **data: Any) -> None:
        """One more line, in one write, so that a crash tears at most this one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "a+b") as file:
            torn = False
            if file.seek(0, os.SEEK_END):
                file.seek(-1, os.SEEK_END)
                torn = file.read(1) != b"\n"
            file.write(b"\n" * torn + json.dumps({"kind": kind, **data}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def add_stage(self, stage: Stage) -> None:
        """What a stage of pruning came to."""
        self.add("stage", **asdict(stage))

    def add_gates(self, step: int, shares: Rows) -> None:
        """How much of each option is on."""
        values = {name: [round(v, 6) for v in row] for name, row in shares.items()}
        self.add("gates", step=step, values=values)

    def trim(self, step: int) -> None:
        """Forget gates seen after a step: a resumed search sees them again."""
        if self.path.exists():
            kept = (line for line in self.lines() if not _after(line, step))
            written = "".join(json.dumps(line) + "\n" for line in kept)
            write_atomically(self.path, written.encode())

    # --- reading ------------------------------------------------------------------------

    def lines(self, kind: str = "") -> list[dict[str, Any]]:
        """Every line that is whole, of one kind or of all."""
        try:
            written = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        found = filter(None, map(_line, written.splitlines()))
        return [line for line in found if not kind or line["kind"] == kind]

    def last(self, kind: str) -> dict[str, Any] | None:
        """The last line of a kind."""
        found = self.lines(kind)
        return found[-1] if found else None

    def looks(self) -> list[Look]:
        """Gates over time, by step."""
        found: dict[int, Rows] = {}
        for line in self.lines("gates"):
            step, values = line.get("step"), rows(line.get("values"))
            if type(step) is int and values:
                found[step] = values
        return [Look(step, found[step]) for step in sorted(found)]

    def stages(self) -> list[Stage]:
        """Stages of pruning, in order."""
        read = (_tried(Stage.from_data, line) for line in self.lines("stage"))
        found = {stage.stage: stage for stage in read if stage is not None}
        return [found[number] for number in sorted(found)]

    def prices(self) -> Rows:
        """What each option costs; nothing where no option has a price."""
        return rows((self.last("prices") or {}).get("values"))


def rows(data: Any) -> dict[str, tuple[float, ...]]:
    """Rows of finite numbers by name; others are left out."""
    pairs = data.items() if isinstance(data, dict) else ()
    return {name: tuple(map(float, row)) for name, row in pairs if _numbers(row)}


def is_number(value: Any) -> bool:
    """Whether it is a finite number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _numbers(row: Any) -> bool:
    return isinstance(row, list) and bool(row) and all(map(is_number, row))


def _line(written: str) -> dict[str, Any] | None:
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):  # cut off, or not ours
        return None
    return found if isinstance(found, dict) and isinstance(found.get("kind"), str) else None


def _after(line: Mapping[str, Any], step: int) -> bool:
    seen = line.get("step")
    return line["kind"] == "gates" and (not isinstance(seen, int) or seen > step)


def _tried(read: Callable[[dict[str, Any]], Stage], line: dict[str, Any]) -> Stage | None:
    try:
        return read(line)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
