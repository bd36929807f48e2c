"""From the folder of a study to a file."""

from collections.abc import Callable
from pathlib import Path

from formwright.errors import InputError, StorageError
from formwright.files import write_atomically
from formwright.report.material import gather
from formwright.report.page import page_html
from formwright.study import Study


def write_report(folder: str | Path, out: str | Path | None = None) -> Path:
    """Write the report of a study; the old one stays until the new one is whole.

    Args:
        folder: Of the study, which may be running.
        out: The file; ``report.html`` in the folder when not given.

    Returns:
        Where it is.
    """

    def made() -> str:
        study = Study.open(folder)
        try:
            return page_html(gather(study))
        finally:
            study.close()

    return write_page(Path(out) if out is not None else Path(folder) / "report.html", made)


def write_page(path: Path, made: Callable[[], str]) -> Path:
    """Make a page and write it whole or not at all."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, such as report.html.")
    page = made()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, page.encode("utf-8"))
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror}. Choose another place with --out."
        raise StorageError(message) from None
    return path
