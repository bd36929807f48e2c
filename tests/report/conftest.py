"""One browser for all tests of pages; they are skipped where there is none."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from tests.report.chromium import CHROMIUM


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        found = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()
