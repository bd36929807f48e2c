"""``formwright describe``: what an architecture is and what it costs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from formwright.cli import MODEL_HELP


def run(
    arch: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
    length: Annotated[
        int | None, typer.Option(help="Tokens of a text; the longest input when not given.")
    ] = None,
    batch: Annotated[int, typer.Option(help="Texts at once.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    svg: Annotated[
        Path | None, typer.Option(help="Also draw the architecture into this file.")
    ] = None,
) -> None:
    """Show an architecture: its drawing, its counts in all and per part, its notation and id."""
    from formwright.cli.output import print_json, write_drawing
    from formwright.cli.resolve import resolve
    from formwright.cost import count
    from formwright.draw import draw_svg

    found = resolve(arch)
    counts = count(found, batch=batch, length=length)
    if svg is not None:
        write_drawing(svg, draw_svg(found, title=arch))
    if json:
        print_json(_data(found, counts))
    else:
        _print(found, counts)
        if svg is not None:
            print(f"drawn into {svg}")


def _data(arch: Any, counts: Any) -> dict[str, Any]:
    from formwright.arch import arch_id, notation

    return {
        "id": arch_id(arch),
        "notation": notation(arch),
        "params": {"total": counts.params, "non_embedding": counts.non_embedding},
        "flops": counts.flops,
        "activation_bytes": counts.activation_bytes(),
        "batch": counts.load.batch,
        "length": counts.load.length,
        "parts": [
            {
                "name": part.name,
                "kind": part.letter,
                "params": part.count.params,
                "flops": part.count.flops,
                "activation_bytes": 4 * part.count.kept,
            }
            for part in counts.parts
        ],
    }


def _print(arch: Any, counts: Any) -> None:
    from formwright.arch import arch_id, notation
    from formwright.cli.output import console, short_bytes, short_number
    from formwright.draw import draw_text

    out = console()
    print(draw_text(arch, width=max(40, min(out.width, 80))).rstrip() + "\n")
    out.print(_parts_table(counts))
    print()
    load = counts.load
    print(f"parameters   {counts.params:,} ({counts.non_embedding:,} without embedding and head)")
    print(f"FLOPs        {short_number(counts.flops)} for {load.batch} x {load.length} tokens")
    print(f"activations  {short_bytes(counts.activation_bytes())} kept by a training step (fp32)")
    print(f"id           {arch_id(arch)}")
    print(f"notation     {notation(arch)}")


def _parts_table(counts: Any) -> Any:
    """One row per kind of part: equal letters of a stack are added up."""
    from formwright.arch import Count
    from formwright.cli.output import short_bytes, short_number, table

    groups: dict[str, list[Any]] = {}
    for part in counts.parts:
        stack = part.name.split("[")[0]
        groups.setdefault(f"{stack} {part.letter}".strip(), []).append(part.count)
    numbers = ("number", "params", "FLOPs", "activations")
    made = table("part", *numbers, right=numbers)
    for name, found in groups.items():
        total = sum(found, Count())
        made.add_row(
            name,
            str(len(found)),
            short_number(total.params),
            short_number(total.flops),
            short_bytes(4 * total.kept),
        )
    return made
