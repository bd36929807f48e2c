"""Published systems on the command line: ``formwright search lts --preset small``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from formwright.recipes.catalogue import Recipe
    from formwright.study import Study


# What a recipe can be told; its presets decide everything else.
OPTIONS = ("recipe", "task", "preset", "target", "seed", "out", "json")


def run_recipe(
    name: str,
    preset: str,
    *,
    task: str,
    out: Path | None,
    seed: int,
    target: str,
    quiet: bool,
) -> None:
    """Run a recipe; the same command again continues where it stopped."""
    import shlex

    from formwright.cost import read_target
    from formwright.recipes.catalogue import recipe

    where = read_target(target) if target else None
    made = recipe(name, preset, task=task, seed=seed, target=where)
    folder = out or Path("runs") / f"{made.name}-{seed}"

    def say(text: str) -> None:
        if not quiet:
            print(text, flush=True)

    command = shlex.join(["formwright", *sys.argv[1:]])
    _conduct(made, made.begin(folder, command=command, say=say), quiet)


def resume_recipe(study: "Study", *, quiet: bool) -> None:
    """Continue the study of a recipe."""
    from formwright.recipes.catalogue import recipe_of

    _conduct(recipe_of(study), study, quiet)


def _conduct(recipe: "Recipe", study: "Study", quiet: bool) -> None:
    from formwright.cli.live import watching
    from formwright.cli.search import finish

    with watching(study, quiet=quiet, seconds=None, trials=recipe.expected) as view:
        ending = recipe.conduct(study, stop=view.stopped, on_event=view.on_event, say=view.say)
    finish(study, quiet, view.exit_code if ending == "stopped" else 0)
