"""``formwright explain``: a graph-shaped layer as maths, as a drawing and as torch code."""

from pathlib import Path
from typing import Annotated, Any

import typer

from formwright.cli import MODEL_HELP


def run(
    arch: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
    latex: Annotated[bool, typer.Option("--latex", help="Print the maths as LaTeX.")] = False,
    code: Annotated[
        Path | None, typer.Option(help="Write stand-alone torch code into this file.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw the layer into this file.")] = None,
    layer: Annotated[int, typer.Option(help="Which one, where there are several.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Explain what was found: a program, formula or cell as maths, drawing and code to copy."""
    from formwright.cli.output import print_json, write_drawing
    from formwright.cli.resolve import resolve
    from formwright.draw.explain import explained
    from formwright.errors import InputError

    found = explained(resolve(arch))
    if not 1 <= layer <= len(found):
        raise InputError(
            f"--layer {layer}: there are {len(found)} different graph-shaped layers; give 1 to "
            f"{len(found)}."
        )
    if json:
        print_json([_data(one) for one in found])
        return
    chosen = found[layer - 1]
    texts = {path: text for path, text in ((code, "code"), (svg, "svg")) if path is not None}
    made = {path: getattr(chosen, name) for path, name in texts.items()}  # all before any
    for path, text in made.items():
        write_drawing(path, text)
    for one in found:
        print(f"{one.name}, {one.site.width} channels")
        print("\n".join(f"  {line}" for line in _lines(one, latex)))
    for path in made:
        print(f"written: {path}")


def _lines(one: Any, latex: bool) -> list[str]:
    text = one.maths.latex if latex else one.maths.plain
    found: list[str] = text.splitlines()
    return found if latex else [*found, *one.maths.sizes]


def _data(one: Any) -> dict[str, Any]:
    from formwright.arch.writer import write

    return {
        "name": one.name,
        "width": one.site.width,
        "notation": write(one.layer),
        "maths": one.maths.plain,
        "latex": one.maths.latex,
        "sizes": list(one.maths.sizes),
        "code": one.code,
    }
