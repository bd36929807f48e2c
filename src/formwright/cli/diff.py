"""``formwright diff``: what changed from one architecture to another."""

from typing import Annotated

import typer

from formwright.cli import ARCH_HELP


def run(
    before: Annotated[str, typer.Argument(help=ARCH_HELP, show_default=False)],
    after: Annotated[str, typer.Argument(help=ARCH_HELP, show_default=False)],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Name what changed from one architecture to another."""
    from dataclasses import asdict

    from formwright.arch import diff
    from formwright.cli.output import print_json
    from formwright.cli.resolve import resolve

    changes = diff(resolve(before), resolve(after))
    if json:
        print_json([asdict(change) for change in changes])
    elif not changes:
        print("The two are equal.")
    else:
        for change in changes:
            print(change)
