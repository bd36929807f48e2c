"""``formwright zoo``: the published architectures, with our count beside the published one."""

from typing import Annotated, Any

import typer


def run(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List published architectures: our parameter count beside the published one."""
    from formwright.cli.output import print_json

    (print_json if json else _print_table)(_rows())


def _rows() -> list[dict[str, Any]]:
    from formwright import zoo
    from formwright.arch import arch_id, notation
    from formwright.cost import count

    rows = []
    for entry in zoo.entries():
        arch = entry.build()
        rows.append(
            {
                "name": entry.name,
                "system": entry.system,
                "params": count(arch).params,
                "published_params": entry.published_params,
                "notation": notation(arch),
                "id": arch_id(arch),
                "paper": {"title": entry.paper.title, "url": entry.paper.url},
                "reported": dict(entry.reported),
                "note": entry.note,
            }
        )
    return rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    from formwright.cli.output import console, millions, table

    numbers = ("params", "published", "diff")
    made = table("name", "system", *numbers, right=numbers, widest=16)
    for row in rows:
        published = row["published_params"]
        difference = f"{(row['params'] - published) / published:+.1%}" if published else ""
        made.add_row(
            row["name"],
            row["system"],
            millions(row["params"]),
            millions(published) if published else "",
            difference,
        )
    console().print(made)
