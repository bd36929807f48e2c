"""``formwright spaces``: the named spaces, and what is open in one of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from formwright.cli import offers

if TYPE_CHECKING:
    from formwright.space import Space

WIDTH_HELP = "As of `search`: the space reaches around this width."
TASK_HELP = "As of `search`: show what a search on this task would use."


def run(
    name: Annotated[
        str | None,
        typer.Argument(help="Show the decisions of this space.", autocompletion=offers.spaces),
    ] = None,
    task: Annotated[str | None, typer.Option(help=TASK_HELP, autocompletion=offers.tasks)] = None,
    width: Annotated[int | None, typer.Option(help=WIDTH_HELP, min=1)] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the spaces that can be searched, or show one."""
    from formwright.cli.output import console, print_json, table
    from formwright.errors import InputError
    from formwright.space import Countable, named_space, space_data
    from formwright.space.draw import short_number
    from formwright.space.registry import SPACES

    if name is not None:
        space = _asked(name, task, width)
        if json:
            size = space.size() if isinstance(space, Countable) else None
            print_json({"name": name, "size": size, "space": space_data(space)})
        else:
            print(space.outline())
        return
    if task is not None or width is not None:
        raise InputError("--task and --width show one space; name it: formwright spaces open ...")
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


def _asked(name: str, task: str | None, width: int | None) -> "Space":
    """The space as it is declared, or as a search on a task makes it."""
    from formwright.space import space_for

    if task is None:
        return space_for(name, **({} if width is None else {"width": width}))
    from formwright.recipes.usual import UsualSearch

    width = UsualSearch.width if width is None else width
    return UsualSearch(task=task, space=name, width=width).make_space()
