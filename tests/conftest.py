"""Fixtures that several rooms' tests share."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from formwright.testing.clock import counted_clock
from tests.chromium import CHROMIUM
from tests.cli_helpers import InProcess


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of pages; they are skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        found = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    """The command line without a process of its own."""
    return InProcess(monkeypatch, capsys)


@pytest.fixture
def counted() -> Iterator[None]:
    """Latencies follow from counts: nothing waits for a quiet machine."""
    with counted_clock():
        yield
