"""Whether what a record holds can be a study: records of strangers, or of a bad disk, may not be.

Whatever reads a study relies on these few facts, so they are looked at once, when it is read.
"""

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

from formwright.trial import Trial

DEEPEST = 60  # levels of JSON in a record
_LARGEST = 1 << 53


def check_meta(meta: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` where this cannot be what a study was begun with."""
    for key, value in meta.items():
        _expect(not too_deep(value), f"{key} is nested more than {DEEPEST} deep")
    pairs = meta["objectives"]
    _expect(isinstance(pairs, list) and pairs and all(map(_named, pairs)), "its objectives")
    rules, strategy = meta["rules"], meta["strategy"]
    _expect(isinstance(rules, dict) and isinstance(strategy, dict), "its rules or its strategy")
    whole = (rules.get("window", 1), rules.get("control", 0))
    _expect(all(type(n) is int and 0 <= n < 1 << 20 for n in whole), "its window or control")
    _expect(type(meta["seed"]) is int and abs(meta["seed"]) < 1 << 64, "its seed")
    _expect(isinstance(strategy["name"], str), "the name of its strategy")
    options = strategy["options"]
    _expect(isinstance(options, dict), "the options of its strategy")
    limits = rules.get("limits", {})
    bounds = isinstance(limits, dict) and all(n == inf or _number(n) for n in limits.values())
    _expect(bounds, "its limits")
    for name in ("versions", "processor", "hyperparameters", "free", "target"):
        _expect(isinstance(meta.get(name), dict | None), f"its {name}")
    for name in ("recipe", "task", "command", "created", "start"):
        _expect(isinstance(meta.get(name), str | None), f"its {name}")


def check_trial(trial: Trial) -> None:
    """Raise ``ValueError`` where this cannot be a trial of a study."""
    number = trial.number
    told = f"trial {number} is damaged"
    _expect(isinstance(trial.decisions, dict) and isinstance(trial.details, dict), told)
    words = (trial.arch, trial.reason, trial.origin, trial.note)
    _expect(all(type(word) is str for word in words), told)
    _expect(isinstance(trial.values, dict) and all(map(_number, trial.values.values())), told)
    _expect(all(type(p) is int and 0 <= p < number for p in trial.parents), told)
    _expect(type(trial.rung) is int and 0 <= trial.rung < 1 << 20, told)
    _expect(trial.steps is None or (type(trial.steps) is int and 0 <= trial.steps < _LARGEST), told)
    _expect(trial.train_seconds is None or _number(trial.train_seconds), told)
    for earlier in (trial.continues, trial.original):
        _expect(earlier is None or (type(earlier) is int and 0 <= earlier < number), told)
    _expect(_number(trial.seconds), told)


def too_deep(value: Any) -> bool:
    """Whether JSON is nested so deep that walking over it could exhaust the stack."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list | tuple)
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return False
    return True


def _named(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(w, str) and w for w in pair)


def _number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


def _expect(so: Any, what: str) -> None:
    if not so:
        raise ValueError(what)
