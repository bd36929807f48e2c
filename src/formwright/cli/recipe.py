"""Published systems on the command line: ``formwright search lts --preset small``."""

import sys
from pathlib import Path
from typing import Any

import typer


def run_recipe(
    name: str, preset: str, *, out: Path | None, seed: int, target: str, quiet: bool
) -> None:
    """Run a recipe; the same command again continues where it stopped."""
    import shlex
    from dataclasses import replace

    from formwright.cli.live import watching
    from formwright.cli.output import print_json
    from formwright.cli.show import print_study, study_data
    from formwright.errors import UnknownName
    from formwright.recipes import lts
    from formwright.report import write_report

    backbones = {"lts": "gpt2", "lts-gpt2": "gpt2", "lts-xl": "xl"}
    presets: dict[str, Any] = {"paper": lts.paper, "small": lts.small, "smoke": lts.smoke}
    if name not in backbones:
        raise UnknownName("recipe", name, backbones)
    if preset not in presets:
        raise UnknownName("preset", preset, presets)
    recipe = replace(presets[preset](backbones[name]), seed=seed)
    if target:
        from formwright.cost import read_target

        recipe = replace(recipe, target=read_target(target))
    folder = out or Path("runs") / f"{recipe.name}-{seed}"
    command = shlex.join(["formwright", *sys.argv[1:]])
    study = lts.begin(recipe, folder, command=command, say=_say(quiet))
    with watching(study, quiet=quiet, seconds=None, trials=recipe.candidates) as view:
        ending = lts.conduct(recipe, study, stop=view.stopped, on_event=view.on_event, say=view.say)
    report = write_report(folder)
    if quiet:
        print_json({**study_data(study), "report": str(report)})
    else:
        print_study(study)
        print(f"report: {report}")
    if ending == "stopped":
        raise typer.Exit(view.exit_code)


def _say(quiet: bool) -> Any:
    return (lambda text: None) if quiet else (lambda text: print(text, flush=True))
