"""Fixtures that several rooms' tests share."""

import pytest

from tests.cli_helpers import InProcess


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    """The command line without a process of its own."""
    return InProcess(monkeypatch, capsys)
