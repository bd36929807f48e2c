"""The live page in a real browser: it follows a search and takes nothing from who reads it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from tests.serve.serving import Served, more, searched, served, with_model

PATIENCE = 60_000  # milliseconds


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live") / "runs"
    searched(folder / "one", trials=30)
    with_model(folder / "one", tmp_path_factory.mktemp("model"))
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Served]:
    with served(runs) as found:
        yield found


@pytest.fixture(scope="module")
def context(browser: Any) -> Iterator[Any]:
    found = browser.new_context(viewport={"width": 1280, "height": 900})
    yield found
    found.close()


def test_a_reader_follows_a_search_and_asks_its_model(
    server: Served, runs: Path, context: Any
) -> None:
    page, complaints, foreign = context.new_page(), [], []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda sent: (
            sent.url.startswith((server.address, "data:", "blob:")) or foreign.append(sent.url)
        ),
    )

    page.goto(server.address)
    page.get_by_role("link", name="one").click()
    page.wait_for_selector("body[data-shown] iframe.shown", timeout=PATIENCE)
    assert "27 trials done" in page.locator("#status").inner_text()
    first = page.locator("body").get_attribute("data-shown")
    frame = page.frame_locator("iframe.shown")
    frame.locator("h2").first.wait_for()

    # a trial is open and the page stands further down: newer results wait
    opener = frame.locator("[data-trial]").last
    opener.scroll_into_view_if_needed()
    at = page.evaluate("document.querySelector('iframe.shown').contentWindow.scrollY")
    frame.locator("button[data-trial]").first.click()
    frame.locator("dialog[open]").wait_for()
    more(runs / "one", 40)
    page.get_by_text("37 trials done").wait_for(timeout=PATIENCE)
    page.get_by_text("newer results wait").wait_for(timeout=PATIENCE)
    assert page.locator("body").get_attribute("data-shown") == first
    page.evaluate(
        "document.querySelector('iframe.shown').contentDocument.querySelector('dialog').close()"
    )

    # they come, and the page stands where it stood
    scrolled = page.evaluate("document.querySelector('iframe.shown').contentWindow.scrollY")
    page.wait_for_function(
        "before => document.body.dataset.shown !== before", arg=first, timeout=PATIENCE
    )
    assert page.locator("iframe").count() == 1
    now = page.evaluate("document.querySelector('iframe.shown').contentWindow.scrollY")
    assert at > 0
    assert now == scrolled

    page.get_by_text("Try the recommended model").click()
    page.locator("#text").fill("[MAX 2 9 ]")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text(" ms on the machine").wait_for(timeout=PATIENCE)
    assert complaints == []
    assert foreign == []
    page.close()


def test_the_list_follows_and_fits_a_phone_in_the_dark(
    server: Served, runs: Path, context: Any
) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 375, "height": 700})
    page.emulate_media(color_scheme="dark")
    page.goto(server.address)
    page.wait_for_function("document.querySelectorAll('#list tbody tr').length === 1")
    searched(runs / "two", trials=3)
    page.get_by_role("link", name="two").wait_for(timeout=PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    page.get_by_role("link", name="two").click()
    page.wait_for_selector("body[data-shown] iframe.shown", timeout=PATIENCE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    assert not page.locator("#try").is_visible()  # it has no model
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == "rgb(20, 23, 27)"
    page.close()
