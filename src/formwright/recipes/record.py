"""What the study of a recipe remembers of it, so that it is continued by the same and no other."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

from formwright.arch.node import Node
from formwright.arch.writer import write
from formwright.cost import Target
from formwright.errors import InputError
from formwright.study import Study
from formwright.study.job import discreet

# Kept on their own, or without effect on the result.
_ELSEWHERE = {"name", "seed", "task", "target", "workers", "space", "checkpoint"}
_CALIBRATED = {"name", "fingerprint", "reference", "reference_ms"}


class Named(Protocol):
    """A recipe, as far as its record goes."""

    @property
    def name(self) -> str:
        """With the preset: ``par-small``."""

    @property
    def seed(self) -> int:
        """Of all chance."""

    @property
    def target(self) -> Target | None:
        """Where latency is measured."""


def numbers_of(recipe: Named) -> dict[str, Any]:
    """All that makes a recipe, as plain values; what is at its default is left out."""
    whole = {k: v for k, v in _plain(recipe).items() if k not in _ELSEWHERE}
    found: dict[str, Any] = json.loads(discreet(json.dumps(whole)))
    return found


def reopened(recipe: Named, folder: Path, **others: str | None) -> Study | None:
    """The study that a recipe has in a folder; None where there is none, refused if another's.

    Args:
        recipe: Which it must be.
        folder: Where to look.
        others: What else must be as it was: ``task``.
    """
    if not (folder / "study.db").exists():
        return None
    study = Study.open(folder)
    asked = {"recipe": recipe.name, "seed": str(recipe.seed), **others}
    known = {**study.meta, "seed": str(study.seed)}
    pairs = [(name, known.get(name) or "", discreet(value or "")) for name, value in asked.items()]
    pairs.append(("target", _uncalibrated(study.meta.get("target")), _uncalibrated(recipe.target)))
    different = [pair for pair in pairs if pair[1] != pair[2]] + differences(study, recipe)
    for name, before, value in different:
        raise InputError(
            f"{folder} holds another search: its {name} is {_said(before, 'not given')}, not "
            f"{_said(value, 'left out')}. Continue it with `formwright resume {folder}`, or choose "
            "another --out."
        )
    return study


def _said(value: Any, nothing: str) -> str:
    return nothing if value in (None, "") else str(value)


def differences(study: Study, recipe: Named) -> list[tuple[str, Any, Any]]:
    """Numbers in which a study differs from a recipe: name, the study's, the recipe's."""
    known = study.meta.get("numbers")
    if known is None:  # begun before numbers were kept
        return []
    ours, theirs = _flat(known), _flat(numbers_of(recipe))
    return [
        (name, ours.get(name), theirs.get(name))
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, Node):
        return write(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.default is MISSING or getattr(value, field.name) != field.default
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Values by their path: ``training.steps``."""
    if not isinstance(value, dict | list):
        return {name: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return {k: v for key, item in pairs for k, v in _flat(item, f"{name}.{key}".strip(".")).items()}


def _uncalibrated(target: Any) -> str:
    """A target as it was asked for."""
    if target is None:
        return ""
    data = target if isinstance(target, Mapping) else asdict(target)
    return Target(**{k: v for k, v in data.items() if k not in _CALIBRATED}).text
