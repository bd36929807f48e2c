"""``formwright zoo``: the published architectures, with our count beside the published one."""

from typing import Annotated, Any

import typer

_ROUNDED = 0.015  # of a count: what is printed has two digits at times


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
    from formwright.cli.output import console, millions, table, wrapped

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
    for line in _reasons(rows):
        print(wrapped(line))


def _reasons(rows: list[dict[str, Any]]) -> list[str]:
    """Why counts differ from what was published, where it is more than what print rounds off."""
    found: dict[str, str] = {}
    for row in rows:
        published = row["published_params"]
        if published and abs(row["params"] - published) / published > _ROUNDED:
            known = found.setdefault(row["system"], row["note"])
            found[row["system"]] = min(known, row["note"], key=len)  # what all of them share
    unknown = "nobody knows yet why the counts differ."
    lines = [f"{system}: {note or unknown}" for system, note in found.items()]
    counted = f"All others are within {_ROUNDED:.1%} of what was published, as far as it was."
    return [*lines, counted]
