"""The ``formwright`` command: its verbs, and how errors reach the user."""

import os
import sys

import typer

from formwright.cli import (
    compare,
    compress,
    describe,
    diff,
    eval,
    explain,
    export,
    keep,
    listing,
    measure,
    ops,
    predict,
    profile,
    report,
    search,
    serve,
    show,
    spaces,
    targets,
    tasks,
    train,
    zoo,
)
from formwright.errors import FormwrightError

app = typer.Typer(
    name="formwright",
    help="Find the best Transformer for a task and a machine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (zoo, describe, explain, diff, ops, measure, targets, profile, search):
    app.command(verb.__name__.rpartition(".")[2])(verb.run)
app.command("resume")(search.resume)
for verb in (show, keep, spaces, train, eval, predict, compress, export, report, compare, serve):
    app.command(verb.__name__.rpartition(".")[2])(verb.run)
app.command("list")(listing.run)
app.add_typer(tasks.app, name="tasks")


@app.callback(invoke_without_command=True)
def _common(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from formwright import __version__

        print(f"formwright {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line. A mistake of the user ends with one sentence and exit code 2."""
    try:
        app()
    except FormwrightError as error:
        print(f"formwright: error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader, such as `head`, had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:  # a disk that is full, a folder that is closed to us
        where = f"{error.filename}: " if error.filename is not None else ""
        said = error.strerror or error
        print(f"formwright: error: {where}{said}. What was written is intact.", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
