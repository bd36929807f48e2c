"""Whether a folder holds the same search, and which recipe a study was begun by."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from formwright.cost import Target
from formwright.errors import FormatError, FormwrightError, InputError, StorageError
from formwright.files import discreet
from formwright.recipes.recipe import RECIPES, Recipe, recipe
from formwright.space import space_data
from formwright.study import Study

_CALIBRATED = {"name", "fingerprint", "reference", "reference_ms"}


def target_of(study: Study) -> Target | None:
    """Where the study measures latency; None where it does not."""
    data = study.meta.get("target")
    try:
        return Target(**data) if data else None
    except (TypeError, ValueError, FormwrightError) as error:
        raise StorageError(f"The target of {study.folder} is damaged: {error}") from None


# --- whether it is the same search ------------------------------------------------------


def recipe_of(study: Study) -> Recipe:
    """The recipe that a study was begun by, with the budget that it was begun with."""
    name, _, preset = str(study.meta.get("recipe") or "").rpartition("-")
    if not name:
        raise FormatError(f"{study.folder} was not begun by a search that can be continued here.")
    restore = RECIPES.get(name).restore
    try:
        found = restore(study) if restore is not None else _by_name(name, preset, study)
        return replace(found, **(study.meta.get("free") or {}))
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise StorageError(
            f"What {study.folder} was begun with is damaged: {type(error).__name__}: {error}."
        ) from None


def _by_name(name: str, preset: str, study: Study) -> Recipe:
    task, start = (study.meta.get(key) or "" for key in ("task", "start"))
    changes = study.meta.get("changed") or ()
    found = recipe(name, preset, task=task, start=start, seed=study.seed, changes=changes)
    if different := _differences(found, study):
        number, theirs, ours = different[0]
        raise InputError(
            f"{study.folder} was begun with other numbers than {name} has in the preset {preset}: "
            f"its {number} is {theirs}, not {ours}. Continue it in Python, with the recipe that "
            "began it."
        )
    return found


def reopened(recipe: Recipe, folder: Path) -> Study | None:
    """The study that a recipe has in a folder; None where there is none, refused if another's."""
    if not (folder / "study.db").exists():
        return None
    space = recipe.make_space()
    study = Study.open(folder, space=space)
    asked = {"recipe": recipe.name, "task": recipe.task, **recipe.remembered}
    pairs = [(k, study.meta.get(k) or "", discreet(v or "")) for k, v in asked.items()]
    pairs.append(("seed", str(study.seed), str(recipe.seed)))
    pairs.append(("target", _uncalibrated(study.meta.get("target")), _uncalibrated(recipe.where())))
    different = [pair for pair in pairs if pair[1] != pair[2]] + _differences(recipe, study)
    if not different and _stored(space_data(space)) != study.meta["space"]:
        different = [("space", "another one", "what is there now")]
    for name, before, value in different:
        raise InputError(
            f"{folder} holds another search: its {name} is {_said(before, 'not given')}, not "
            f"{_said(value, 'left out')}. Continue it with `formwright resume {folder}`, or choose "
            "another --out."
        )
    return study


def _differences(recipe: Recipe, study: Study) -> list[tuple[str, Any, Any]]:
    """Hyperparameters in which a study differs from a recipe: name, the study's, the recipe's."""
    known = study.meta.get("hyperparameters")
    if known is None:  # begun before they were kept
        return []
    theirs, ours = _flat(known), _flat(_stored(recipe.hyperparameters()))
    return [
        (name, theirs.get(name), ours.get(name))
        for name in sorted({*theirs, *ours})
        if theirs.get(name) != ours.get(name)
    ]


def _stored(data: Any) -> Any:
    """The same as the record keeps it: lists for tuples, and no name of a home folder."""
    return json.loads(discreet(json.dumps(data)))


def _said(value: Any, nothing: str) -> str:
    return nothing if value in (None, "") else str(value)


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
