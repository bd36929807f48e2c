"""The command line inside the test's own process: torch is loaded once, not once per command."""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from formwright.cli.main import main


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class InProcess:
    """Runs commands as ``formwright WORDS`` would; a traceback fails the test by itself."""

    def __init__(self, patch: pytest.MonkeyPatch, caught: pytest.CaptureFixture[str]) -> None:
        self.patch, self.caught = patch, caught

    def __call__(self, *words: str, folder: Path | None = None) -> Done:
        if folder is not None:
            self.patch.chdir(folder)
        self.patch.setattr(sys, "argv", ["formwright", *words])
        self.caught.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        printed = self.caught.readouterr()
        return Done(code, printed.out, printed.err)
