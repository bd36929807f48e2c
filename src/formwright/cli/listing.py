"""``formwright list``: everything that can be asked for by name, with a line about each."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Annotated, Any

import typer

from formwright.cli import offers

KIND_HELP = f"One of {', '.join(offers.KINDS)}."
NAME_HELP = "With settings: a recipe, `usual` (the search without one) or `train`."
Row = tuple[str, ...]
_POLICIES = {
    "gumbel": "softmax of scores and noise (PAR)",
    "do": "real numbers with an L1 price (Finding Fast Transformers)",
    "sdo": "coins with learned odds (Finding Fast Transformers)",
    "uniform": "equal shares, some of them per batch (DARTFormer)",
    "single-path": "one member per batch, drawn evenly",
}


def run(
    kind: Annotated[
        str | None,
        typer.Argument(help=KIND_HELP, show_default=False, autocompletion=offers.kinds),
    ] = None,
    name: Annotated[
        str | None,
        typer.Argument(help=NAME_HELP, show_default=False, autocompletion=offers.configured),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="With settings: whose values.", autocompletion=offers.presets)
    ] = "small",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List what can be asked for by name: strategies, recipes, objectives, settings, ..."""
    from formwright.cli.output import console, print_json, table
    from formwright.errors import InputError, UnknownName

    heads: Row
    rows: list[Row]
    if kind is None:
        heads, rows = ("kind", "what"), [(k, words) for k, words in offers.KINDS.items()]
    elif kind not in offers.KINDS:
        raise UnknownName("kind of thing", kind, offers.KINDS)
    elif kind == "settings":
        heads, rows = ("setting", "value", "may be"), list(_settings(name or "usual", preset))
    elif name is not None:
        raise InputError(f"A name applies to settings only: formwright list settings {name}")
    else:
        heads, rows = ("name", "what it is"), list(_ROWS[kind]())
    if json:
        print_json([dict(zip(heads, row, strict=True)) for row in rows])
        return
    made = table(*heads, wrap=heads[1:], widest=60)
    for row in rows:
        made.add_row(*(cell.replace("[", "\\[") for cell in row))
    console().print(made)


def _first(thing: Any) -> str:
    """The first line of what a thing says of itself."""
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def _strategies() -> Iterator[Row]:
    from formwright.strategy.blackbox.base import STRATEGIES

    yield from sorted((name, _first(cls)) for name, cls in STRATEGIES.items())


def _recipes() -> Iterator[Row]:
    from formwright.recipes.recipe import RECIPES

    for name, named in sorted(RECIPES.items()):
        make = next(iter(named.presets.values()), None)
        if make is None:
            yield name, f"A verb of its own: formwright {name}"
            continue
        module = inspect.getmodule(make)
        about = _first(module) if module is not None else ""
        variant = f" ({named.variant})" if named.variant and named.variant != name else ""
        yield name, f"{about}{variant}"


def _estimators() -> Iterator[Row]:
    from formwright.estimate import estimators, get_proxy

    yield "train", "Quality by training, as long as the budget allows."
    for name, _ in sorted(estimators.items()):
        try:
            yield name, get_proxy(name).evidence
        except Exception:  # of an installed package: it says what it likes
            yield name, _first(estimators.get(name))


def _objectives() -> Iterator[Row]:
    from formwright.estimate.own import BUILT_IN, about, objectives

    yield "METRIC", "what the task is measured by, such as accuracy: formwright tasks show TASK"
    for name in (*BUILT_IN, *sorted(objectives)):
        yield name, about(name)


def _spaces() -> Iterator[Row]:
    from formwright.space.registry import SPACES

    yield from ((name, entry.summary) for name, entry in sorted(SPACES.items()))


def _tasks() -> Iterator[Row]:
    from formwright.tasks import task_names

    yield from task_names()


def _targets() -> Iterator[Row]:
    from formwright.cost.machine import package_version, runtimes

    for name, runtime in runtimes.items():
        version = package_version(runtime.package)
        here = f"{runtime.package} {version}: {', '.join(runtime.dtypes)}"
        yield name, f"not here: {runtime.missing}" if runtime.missing else here


def _executors() -> Iterator[Row]:
    from formwright.execute.search import executors

    yield from ((name, _first(thing)) for name, thing in sorted(executors.items()))


def _styles() -> Iterator[Row]:
    from formwright.arch.style import style, style_names

    for name in style_names():
        made = style(name)
        yield name, f"{made.backbone.NAME}, letters {' '.join(made.letters)}"


def _policies() -> Iterator[Row]:
    from formwright.recipes.mix import POLICIES

    yield from ((name, _POLICIES[name]) for name in POLICIES)


def _presets() -> Iterator[Row]:
    yield "paper", "The numbers that were published."
    yield "small", "The published effect on two processor cores, in minutes."
    yield "smoke", "The same path in seconds."


def _trackers() -> Iterator[Row]:
    from formwright.track import trackers

    yield from ((name, _first(cls)) for name, cls in sorted(trackers.items()))


_ROWS: dict[str, Callable[[], Iterator[Row]]] = {
    "strategies": _strategies,
    "recipes": _recipes,
    "estimators": _estimators,
    "objectives": _objectives,
    "spaces": _spaces,
    "tasks": _tasks,
    "targets": _targets,
    "runtimes": _targets,
    "executors": _executors,
    "styles": _styles,
    "policies": _policies,
    "presets": _presets,
    "trackers": _trackers,
}


def _settings(name: str, preset: str) -> Iterator[Row]:
    """The keys of ``--set`` of a recipe with the values of a preset."""
    for key in setting_keys(name, preset):
        value = "none" if key.value is None else str(key.value)
        yield key.path, value if len(value) <= 24 else f"{value[:23]}\u2026", key.allowed


def setting_keys(name: str, preset: str = "small") -> list[Any]:
    """The same as data."""
    from formwright.recipes.recipe import RECIPES, Recipe
    from formwright.recipes.setting import keys
    from formwright.train import TrainConfig

    if name == "train":
        return list(keys(TrainConfig(steps=1000)))
    if name == "compress":  # it has no presets: a model and its limits make it
        from formwright.recipes.compress import Compress

        made: Recipe = Compress(name="compress", task="stdlib", model="", limits=("2x",))
    else:
        named = RECIPES.get(name)
        made = named.make("search" if name == "usual" else preset)
    apart = {field.name for field in fields(Recipe)} | made.FREE | made.APART
    return list(keys(made, apart))
