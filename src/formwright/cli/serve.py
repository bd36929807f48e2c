"""``formwright serve``: the runs of a folder as live pages."""

from pathlib import Path
from typing import Annotated

import typer

HOST_HELP = "Interface; any other than localhost needs a token, which is made and printed."
NEEDED_HELP = "What opens the pages; also taken from FORMWRIGHT_TOKEN, which others cannot see."
NAME_HELP = "One more name by which browsers may call this server, as behind a proxy."


def run(
    folder: Annotated[Path, typer.Argument(metavar="RUNS_DIR", help="Holds runs.")] = Path("runs"),
    host: Annotated[str, typer.Option(help=HOST_HELP)] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8733,
    token: Annotated[
        str, typer.Option(help=NEEDED_HELP, envvar="FORMWRIGHT_TOKEN", show_envvar=False)
    ] = "",
    name: Annotated[list[str] | None, typer.Option(help=NAME_HELP)] = None,
) -> None:
    """Show runs in a browser while they go on: their reports, and a box to try a model.

    It only reads. Nothing leaves this machine unless --host says so.
    """
    from formwright.errors import InputError

    try:
        from formwright.serve.server import Place, serve
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise InputError(
            f"The live page needs {error.name}, which is not installed: "
            "pip install 'formwright[serve]'"
        ) from None
    serve(folder, Place(host, port, token, tuple(name or ())), lambda line: print(line, flush=True))
