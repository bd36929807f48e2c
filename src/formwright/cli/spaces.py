"""``formwright spaces``: the named spaces, and what is open in one of them."""

from typing import Annotated

import typer


def run(
    name: Annotated[str | None, typer.Argument(help="Show the decisions of this space.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the spaces that can be searched, or show one."""
    from formwright.cli.output import console, print_json, table
    from formwright.space import named_space, space_names
    from formwright.space.draw import draw_space, meaning, short_number
    from formwright.space.registry import space_entry

    if name is not None:
        space = named_space(name)
        if json:
            choices = {key: meaning(choice) for key, choice in space.choices.items()}
            print_json({"name": name, "size": space.size(), "decisions": choices})
        else:
            print(draw_space(space))
        return
    rows = [(n, named_space(n).size(), space_entry(n).summary) for n in space_names()]
    if json:
        print_json([dict(zip(("name", "size", "about"), row, strict=True)) for row in rows])
    else:
        shown = table("name", "members", "what it is", right=("members",), wrap=("what it is",))
        for known, size, about in rows:
            shown.add_row(known, short_number(size), about)
        console().print(shown)
