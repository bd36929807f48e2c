"""What shell completion offers: values too, and at once, so without loading torch.

Names of things whose rooms need torch are written down in ``known.json``, which a test compares
with what there is; ``python -m formwright.cli.offers`` writes it anew. What installed packages add
is found by their entry points, of which nothing is imported.
"""

import json
import os
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer

KINDS = {
    "strategies": "how to choose what to try next: search --strategy",
    "recipes": "published systems: search RECIPE",
    "estimators": "how good a model is, trained or not: search --estimator",
    "objectives": "what can be made small or large: search --minimise, --maximise",
    "spaces": "what can be searched: search --space",
    "tasks": "what can be learnt: --task",
    "targets": "where a model can be timed: --target",
    "runtimes": "the same",
    "executors": "who evaluates trials, in Python",
    "styles": "families that give the letters of a string their meaning",
    "policies": "who holds the gates of a supernet: search --policy",
    "presets": "sizes of a recipe: search RECIPE --preset",
    "trackers": "where numbers may also go: --log",
    "settings": "the keys of --set: formwright list settings par",
}


@cache
def known() -> dict[str, Any]:
    """What is written down."""
    data: dict[str, Any] = json.loads((files("formwright.cli") / "known.json").read_bytes())
    return data


def _plugins(group: str) -> list[str]:
    return [found.name for found in entry_points(group=f"formwright.{group}")]


def _fitting(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def kinds(incomplete: str) -> list[str]:
    """Kinds that ``formwright list`` knows."""
    return _fitting(incomplete, KINDS)


def strategies(incomplete: str) -> list[str]:
    """Strategies."""
    from formwright.strategy.blackbox.base import strategy_names

    return _fitting(incomplete, strategy_names())


def spaces(incomplete: str) -> list[str]:
    """Spaces."""
    from formwright.space.registry import space_names

    return _fitting(incomplete, space_names())


def recipes(incomplete: str) -> list[str]:
    """Recipes."""
    return _fitting(incomplete, [*known()["recipes"], *_plugins("recipes")])


def tasks(incomplete: str) -> list[str]:
    """Tasks, and kinds of tasks with the colon that a path follows."""
    return _fitting(incomplete, [*known()["tasks"], *_plugins("tasks")])


def estimators(incomplete: str) -> list[str]:
    """Estimators."""
    return _fitting(incomplete, [*known()["estimators"], *_plugins("estimators")])


def objectives(incomplete: str) -> list[str]:
    """Values that every search has, and those of proxies."""
    return _fitting(incomplete, [*known()["objectives"], *_plugins("objectives")])


def targets(incomplete: str) -> list[str]:
    """Runtimes."""
    return _fitting(incomplete, [*known()["runtimes"], *_plugins("runtimes")])


def policies(incomplete: str) -> list[str]:
    """Policies."""
    return _fitting(incomplete, known()["policies"])


def presets(incomplete: str) -> list[str]:
    """Presets."""
    return _fitting(incomplete, known()["presets"])


def costs(incomplete: str) -> list[str]:
    """What can be counted as cost."""
    return _fitting(incomplete, known()["costs"])


def trackers(incomplete: str) -> list[str]:
    """Trackers."""
    return _fitting(incomplete, [*known()["trackers"], *_plugins("trackers")])


def configured(incomplete: str) -> list[str]:
    """What has settings."""
    return _fitting(incomplete, known()["settings"])


def settings(ctx: typer.Context, args: list[str], incomplete: str) -> list[str]:
    """Keys of ``--set`` for the recipe that is typed, or for a training."""
    typed = [word for word in (*args, *_line()) if word in known()["recipes"]]  # half a command
    verb = ctx.info_name if ctx.info_name in ("train", "compress") else None
    group = known()["settings"][verb or next(iter(typed), "usual")]
    return _fitting(incomplete, (f"{key}=" for key in known()["keys"][group]))


def _line() -> list[str]:
    """The words that a shell has so far."""
    return (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or "").split()


def found() -> dict[str, Any]:
    """What there is now, as it is written down; torch is loaded for it."""
    from typing import get_args

    from formwright.cli.listing import setting_keys
    from formwright.cost.machine import runtimes
    from formwright.estimate import estimators
    from formwright.estimate.own import BUILT_IN
    from formwright.recipes.mix import POLICIES
    from formwright.recipes.recipe import PRESETS, RECIPES
    from formwright.recipes.usual import CostKind
    from formwright.tasks import task_names
    from formwright.track import tracker_names

    named = [*sorted(RECIPES), "train"]
    paths = {name: [key.path for key in setting_keys(name)] for name in named}
    keys: list[list[str]] = []
    for listed in paths.values():
        if listed not in keys:
            keys.append(listed)
    proxies = sorted(estimators)
    return {
        "recipes": sorted(RECIPES),
        "tasks": [name.partition(":")[0] + ":" * (":" in name) for name, _ in task_names()],
        "estimators": ["train", *proxies],
        "objectives": [*BUILT_IN, "accuracy", *(n for n in proxies if n not in BUILT_IN)],
        "runtimes": sorted(runtimes),
        "policies": list(POLICIES),
        "presets": list(PRESETS),
        "costs": list(get_args(CostKind)),
        "trackers": tracker_names(),
        "settings": {name: keys.index(listed) for name, listed in paths.items()},
        "keys": keys,
    }


if __name__ == "__main__":
    place = Path(__file__).with_name("known.json")
    place.write_text(json.dumps(found(), indent=1) + "\n", encoding="utf-8")
    print(place)
