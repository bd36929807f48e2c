"""``formwright spaces``: the named spaces, and what is open in one of them."""

from typing import Annotated

import typer


def run(
    name: Annotated[str | None, typer.Argument(help="Show the decisions of this space.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the spaces that can be searched, or show one."""
    from formwright.cli.output import console, print_json, table
    from formwright.space import Countable, named_space, space_data
    from formwright.space.draw import short_number
    from formwright.space.registry import SPACES

    if name is not None:
        space = named_space(name)
        if json:
            size = space.size() if isinstance(space, Countable) else None
            print_json({"name": name, "size": size, "space": space_data(space)})
        else:
            print(space.outline())
        return
    made = {entry.name: named_space(entry.name) for _, entry in sorted(SPACES.items())}
    sizes = {n: s.size() if isinstance(s, Countable) else None for n, s in made.items()}
    rows = [(name, size, SPACES.get(name).summary) for name, size in sizes.items()]
    if json:
        print_json([dict(zip(("name", "size", "about"), row, strict=True)) for row in rows])
    else:
        shown = table("name", "members", "what it is", right=("members",), wrap=("what it is",))
        for known, size, about in rows:
            shown.add_row(known, "" if size is None else short_number(size), about)
        console().print(shown)
