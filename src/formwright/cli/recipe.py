"""Published systems on the command line: ``formwright search lts --preset small``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from formwright.recipes.lts import Lts
    from formwright.study import Study

_BACKBONES = {"lts": "gpt2", "lts-gpt2": "gpt2", "lts-xl": "xl"}


def run_recipe(
    name: str, preset: str, *, out: Path | None, seed: int, target: str, quiet: bool
) -> None:
    """Run a recipe; the same command again continues where it stopped."""
    import shlex
    from dataclasses import replace

    from formwright.cost import read_target
    from formwright.recipes import lts

    recipe = replace(_recipe(name, preset), seed=seed)
    if target:
        recipe = replace(recipe, target=read_target(target))
    folder = out or Path("runs") / f"{recipe.name}-{seed}"

    def say(text: str) -> None:
        if not quiet:
            print(text, flush=True)

    command = shlex.join(["formwright", *sys.argv[1:]])
    _conduct(recipe, lts.begin(recipe, folder, command=command, say=say), quiet)


def resume_recipe(study: "Study", *, quiet: bool) -> None:
    """Continue the study of a recipe, which its name tells: ``lts-gpt2-small``."""
    from dataclasses import replace

    name, _, preset = str(study.meta["recipe"]).rpartition("-")
    _conduct(replace(_recipe(name, preset), seed=study.seed), study, quiet)


def _recipe(name: str, preset: str) -> "Lts":
    from formwright.errors import UnknownName
    from formwright.recipes import lts

    presets = {"paper": lts.paper, "small": lts.small, "smoke": lts.smoke}
    if name not in _BACKBONES:
        raise UnknownName("recipe", name, _BACKBONES)
    if preset not in presets:
        raise UnknownName("preset", preset, presets)
    return presets[preset](_BACKBONES[name])


def _conduct(recipe: "Lts", study: "Study", quiet: bool) -> None:
    from formwright.cli.live import watching
    from formwright.cli.search import finish
    from formwright.recipes import lts

    with watching(study, quiet=quiet, seconds=None, trials=recipe.candidates) as view:
        ending = lts.conduct(recipe, study, stop=view.stopped, on_event=view.on_event, say=view.say)
    finish(study, quiet, view.exit_code if ending == "stopped" else 0)
