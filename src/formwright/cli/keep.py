"""``formwright keep``: a layer that was found gets a name of its own."""

from typing import Annotated

import typer

from formwright.cli import MODEL_HELP


def run(
    arch: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
    name: Annotated[str, typer.Option("--as", help="Its name: a word with an underscore.")],
    layer: Annotated[int, typer.Option(help="Which one, where there are several.")] = 1,
) -> None:
    """Keep a graph-shaped layer under a name that can be used in notations and spaces."""
    from formwright.arch.kept import keep_layer
    from formwright.cli.resolve import resolve
    from formwright.draw.explain import explained
    from formwright.errors import InputError

    found = explained(resolve(arch))
    if not 1 <= layer <= len(found):
        raise InputError(
            f"--layer {layer}: there are {len(found)} different graph-shaped layers; give 1 to "
            f"{len(found)}."
        )
    chosen = found[layer - 1]
    path = keep_layer(name, chosen.layer, about=f"{chosen.name} of {arch}")
    width = chosen.site.width
    print(f"kept as {name}: {path}")
    print("use it as a layer:")
    print(f"  formwright describe '({name})x2 in gpt2({width})'")
    print(f"  formwright train '({name})x2 in gpt2({width})' --task stdlib --time 5m")
    print("and as an option of a space:")
    print(f"  formwright search --space open --set blocks={name}")
