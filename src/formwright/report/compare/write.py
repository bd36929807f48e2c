"""From the folders of studies to a file."""

from collections.abc import Sequence
from pathlib import Path

from formwright.report.compare.page import comparison_html
from formwright.report.compare.runs import Runs, gather_runs
from formwright.report.write import write_page


def write_comparison(
    folders: Sequence[str | Path] | Runs, out: str | Path = "comparison.html"
) -> Path:
    """Write the comparison of several runs; the old page stays until the new one is whole.

    Args:
        folders: Of the studies, which may be running; or what was gathered from them.
        out: The file.

    Returns:
        Where it is.
    """
    runs = folders if isinstance(folders, Runs) else gather_runs(folders)
    return write_page(Path(out), lambda: comparison_html(runs))
