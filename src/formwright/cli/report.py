"""``formwright report``: a study as one page."""

from pathlib import Path
from typing import Annotated

import typer


def run(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of the study.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; RUN/report.html when not given.")
    ] = None,
) -> None:
    """Write a study's report: one HTML file that needs no network."""
    from formwright.report import write_report

    print(write_report(folder, out))
