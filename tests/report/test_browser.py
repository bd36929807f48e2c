"""The page in a real browser: quiet, closed to the network, and it answers."""

from pathlib import Path
from typing import Any

import pytest
from tests.chromium import opened
from tests.report.material import done, hostile, material, studied
from tests.report.oneshot import priced, pruned
from tests.report.test_page import SHAPES

from formwright.report import gather, page_html
from formwright.report.words import figure

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 760}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    study = studied(folder / "run")
    (folder / "page.html").write_text(page_html(gather(study)), encoding="utf-8")
    study.close()
    return folder / "page.html"


def test_a_click_on_a_point_shows_its_architecture(browser: Any, path: Path) -> None:
    seen = opened(browser, path)
    mark = seen.page.locator("svg.chart:visible .mark").first
    number = mark.get_attribute("data-trial")
    mark.scroll_into_view_if_needed()
    mark.hover()
    assert f"Trial {number} · on the front" in seen.page.locator("#tip").inner_text()
    mark.click()
    box = seen.page.locator("#detail")
    assert box.locator("h2").inner_text() == f"Trial {number}"
    picture = box.locator(".drawing img")
    picture.wait_for()
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 200
    assert " in decoder(64)" in box.locator("code").inner_text()
    assert "inner0" in box.inner_text()
    seen.page.keyboard.press("Escape")
    assert not box.is_visible()
    assert seen.quiet()


def test_points_can_be_reached_by_keyboard(browser: Any, path: Path) -> None:
    seen = opened(browser, path)
    mark = seen.page.locator("svg.chart:visible .mark").nth(1)
    mark.focus()
    seen.page.keyboard.press("Enter")
    shown = seen.page.locator("#detail h2").inner_text()
    assert shown == f"Trial {mark.get_attribute('data-trial')}"
    assert seen.quiet()


def test_the_table_sorts_filters_and_turns_pages(browser: Any, path: Path) -> None:
    seen = opened(browser, path)
    page = seen.page
    rows, pages = page.locator("#trials tbody tr"), page.locator("#pages")
    assert rows.count() == 25
    assert "page 1 of 3, 60 of 60 trials" in pages.inner_text()
    page.get_by_role("button", name="Next").click()
    assert rows.first.locator("td").first.inner_text() == "25"
    page.get_by_role("columnheader", name="loss").get_by_role("button").click()
    cells = page.locator("#trials tbody tr td:nth-child(3)").all_inner_texts()
    assert [float(c) for c in cells] == sorted(float(c) for c in cells)
    page.locator("[data-filter=state]").select_option("failed")
    assert rows.count() == 6
    page.locator("[data-filter=text]").fill("read be NOT")
    assert rows.count() == 6
    rows.first.get_by_role("button").click()
    assert "~/data is not to be read by trial" in page.locator("#detail .failed").inner_text()
    page.keyboard.press("Escape")
    page.locator("[data-filter=text]").fill("read nothing")
    assert rows.count() == 0
    assert seen.quiet()


def test_ranges_and_the_front_filter_the_table(browser: Any, path: Path) -> None:
    page = opened(browser, path).page
    page.locator("[data-filter=front]").check()
    on_front = page.locator("#trials tbody tr").count()
    assert 0 < on_front < 60
    page.locator("[data-filter=high]").fill("-1e9")
    assert page.locator("#trials tbody tr").count() == 0


def test_front_members_open_to_a_drawing_and_copy_their_notation(browser: Any, path: Path) -> None:
    seen = opened(browser, path)
    member = seen.page.locator("details[data-draw]").nth(1)
    member.locator("summary").click()
    member.locator("img").wait_for()
    member.get_by_role("button", name="Copy").click()
    member.get_by_text("Copied").wait_for()
    assert seen.quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_fit_screens_and_schemes(
    browser: Any, path: Path, scheme: str, viewport: dict[str, int]
) -> None:
    seen = opened(browser, path, viewport=viewport, color_scheme=scheme)
    page = seen.page
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 22, 29)")
    wide = page.locator("svg.chart.wide").first.is_visible()
    assert wide == (viewport is DESKTOP)
    page.locator("svg.chart:visible .mark").first.click()
    page.locator("#detail img").wait_for()
    assert seen.quiet()


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape_of_study_opens_quietly(browser: Any, tmp_path: Path, name: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_html(SHAPES[name]), encoding="utf-8")
    assert opened(browser, file).quiet()


def test_numbers_are_written_alike_by_page_and_script(browser: Any, tmp_path: Path) -> None:
    values = [3.14159, 0.5, 0.0123, 12345.678, 1e7, 2.5e-7, 3e16, 42.0, 9999.5, 123.456]
    trials = [done(i, value, 1.0) for i, value in enumerate(values)]
    file = tmp_path / "page.html"
    file.write_text(page_html(material(trials)), encoding="utf-8")
    page = opened(browser, file).page
    shown = page.locator("#trials tbody tr td:nth-child(3)").all_inner_texts()
    assert [s.replace("e-7", "e-07") for s in shown] == [figure(value) for value in values]


def test_hostile_words_do_nothing(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "hostile.html"
    file.write_text(page_html(hostile()), encoding="utf-8")
    seen = opened(browser, file)
    page = seen.page
    for _ in range(8):  # every word is in the table, 25 rows at a time
        for button in page.locator("#trials tbody button").all()[::6]:
            button.click()
            page.locator("#detail .quiet").first.wait_for()
            page.keyboard.press("Escape")
        if page.get_by_role("button", name="Next").is_enabled():
            page.get_by_role("button", name="Next").click()
    page.locator("svg.chart:visible .mark").first.hover(force=True)
    page.wait_for_timeout(200)
    assert page.url == file.as_uri()
    assert seen.quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("wide", [1280, 390])
def test_sections_of_one_shot_searches_fit_screens_and_are_quiet(
    browser: Any, tmp_path: Path, scheme: str, wide: int
) -> None:
    wanted = ({"selected", "shares", "gates"}, {"selected", "pruning"})
    for number, found in enumerate((priced(tmp_path / "a"), pruned(tmp_path / "b"))):
        file = tmp_path / f"page{number}.html"
        file.write_text(page_html(found), encoding="utf-8")
        viewport = {"width": wide, "height": 900}
        seen = opened(browser, file, viewport=viewport, color_scheme=scheme)
        page = seen.page
        assert page.evaluate("document.documentElement.scrollWidth") <= wide
        for name in wanted[number]:
            assert page.locator(f"#{name}").is_visible()
            for svg in page.locator(f"#{name} svg.chart:visible").all():
                box = svg.bounding_box()
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= wide
        for image in page.locator("#selected img").all():
            assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 200
        assert seen.quiet()
        page.context.close()
