"""Published systems on the command line: ``formwright search lts --preset small``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from formwright.recipes.catalogue import Recipe
    from formwright.study import Study


# What a recipe can be told; its presets decide everything else.
OPTIONS = ("recipe", "task", "from_", "preset", "target", "seed", "out", "json")


def run_recipe(context: typer.Context) -> None:
    """Run the recipe that was typed; the same command again continues where it stopped."""
    import shlex

    from formwright.recipes.catalogue import recipe

    typed, given = context.params, given_options(context)
    _refuse(typed["recipe"], [name for name in given if name not in OPTIONS])
    made = recipe(
        typed["recipe"],
        typed["preset"],
        task=typed["task"] if "task" in given else "",
        start=typed["from_"] or "",
        seed=typed["seed"],
        target=typed["target"],
    )
    folder = typed["out"] or Path("runs") / f"{made.name}-{typed['seed']}"

    def say(text: str) -> None:
        if not typed["json"]:
            print(text, flush=True)

    command = shlex.join(["formwright", *sys.argv[1:]])
    _conduct(made, made.begin(folder, command=command, say=say), typed["json"])


def resume_recipe(study: "Study", given: list[str], quiet: bool) -> None:
    """Continue the study of a recipe, which no option changes."""
    from formwright.recipes.catalogue import recipe_of

    _refuse(study.meta["recipe"], given)
    _conduct(recipe_of(study), study, quiet)


def _conduct(recipe: "Recipe", study: "Study", quiet: bool) -> None:
    from formwright.cli.live import watching
    from formwright.cli.search import finish

    with watching(study, quiet=quiet, seconds=None, trials=recipe.expected) as view:
        ending = recipe.conduct(study, stop=view.stopped, on_event=view.on_event, say=view.say)
    finish(study, quiet, view.exit_code if ending == "stopped" else 0)


def given_options(context: typer.Context) -> list[str]:
    """The options that were typed."""
    typed = ("COMMANDLINE", "ENVIRONMENT")
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source and source.name in typed]


def _refuse(recipe: str, options: list[str]) -> None:
    """Nothing that was asked for is passed over in silence."""
    if options:
        from formwright.errors import InputError

        words = f"--{options[0].strip('_').replace('_', '-')}"
        raise InputError(
            f"{words} does not apply to the recipe {recipe!r}, whose preset decides. Leave it out, "
            "or search without a recipe; --task, --preset, --target, --seed, --out and for fft "
            "--from apply."
        )
