"""``formwright ops``: every operator, its paper, its cost in the length, its parameters."""

from typing import Annotated, Any

import typer


def run(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the operators: layers, attention mechanisms, norms, convolutions, positions."""
    from formwright.cli.output import print_json

    (print_json if json else _print_table)(_rows())


def _rows() -> list[dict[str, Any]]:
    from formwright.arch.node import nodes

    rows = []
    for name, cls in nodes.items():
        kind = _kind(cls)
        if kind:
            rows.append(
                {
                    "name": name,
                    "kind": kind,
                    "paper": getattr(cls, "paper", ""),
                    "complexity": getattr(cls, "complexity", ""),
                    "params": _params(cls),
                    "about": " ".join((cls.__doc__ or "").split("\n\n")[0].split()),
                }
            )
    return sorted(rows, key=lambda row: (row["kind"], row["name"]))


def _kind(cls: type) -> str:
    """What sort of operator a node is; empty for nodes that are none."""
    from formwright.arch import Layer, Mechanism, Norm, Parallel, Position, Residual, Stack
    from formwright.arch.conv import Convolution

    sorts: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (Mechanism, "attention kind"),
        (Position, "position"),
        (Norm, "norm"),
        (Convolution, "convolution"),
        ((Stack, Residual, Parallel), "container"),
        (Layer, "layer"),
    )
    return next((word for base, word in sorts if issubclass(cls, base)), "")


def _params(cls: Any) -> dict[str, Any]:
    """Field name to default; a field that must be given says what it is."""
    from dataclasses import MISSING

    from formwright.arch.codec import to_data
    from formwright.arch.node import describe_type, field_default, field_types

    found = {}
    for name, hint in field_types(cls).items():
        default = field_default(cls, name)
        found[name] = f"<{describe_type(hint)}>" if default is MISSING else to_data(default)
    return found


def _print_table(rows: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    from formwright.cli.output import console, table

    out = console()
    made = table("name", "time", "paper", "parameters", wrap=("time", "parameters"))
    for kind in dict.fromkeys(row["kind"] for row in rows):
        made.add_row(f"[bold]{kind}s[/bold]")
        for row in rows:
            if row["kind"] == kind:
                paper = row["paper"].removeprefix("https://arxiv.org/abs/")
                params = " ".join(_shown(*item) for item in row["params"].items())
                made.add_row(f"  {row['name']}", row["complexity"], paper, escape(params))
    out.print(made)
    out.print("\nTime is in the length n. Papers are numbers on arXiv.")


def _shown(name: str, default: Any) -> str:
    """A field and its default, if it has one."""
    if isinstance(default, str) and default.startswith("<"):
        return name
    if isinstance(default, dict):
        default = default["node"]
    return f"{name}={str(default).lower()}"
