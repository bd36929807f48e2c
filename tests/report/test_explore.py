"""Looking around in a page: axes, colour, a closer look, two architectures side by side, print."""

from pathlib import Path
from typing import Any

import pytest
from tests.chromium import opened
from tests.report.material import done, failed, material, studied
from tests.report.test_page import SHAPES
from tests.study import toy

from formwright.report import gather, page_html
from formwright.study.outcome import Baseline, Outcome
from formwright.trial import FINAL_RUNG

CHART = ".explorer svg.chart:visible"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    study = studied(folder / "run")
    (folder / "page.html").write_text(page_html(gather(study)), encoding="utf-8")
    study.close()
    return folder / "page.html"


def shown(tmp_path: Path, found: Any) -> Path:
    file = tmp_path / "page.html"
    file.write_text(page_html(found), encoding="utf-8")
    return file


def frame(page: Any) -> list[Any]:
    """What the edges of the visible chart mean."""
    found = page.locator(CHART).evaluate("svg => JSON.parse(svg.dataset.chart)")
    return [found["x"], found["y"]]


def test_any_two_values_can_be_chosen(browser: Any, tmp_path: Path) -> None:
    seen = opened(browser, shown(tmp_path, SHAPES["three objectives"]))
    page, place = seen.page, seen.page.locator(".explorer")
    assert (place.get_attribute("data-x"), place.get_attribute("data-y")) == ("speed", "loss")
    page.locator("[data-axis=x]").select_option("size")
    assert place.get_attribute("data-x") == "size"
    assert "size" in page.locator(f"{CHART} .label").first.text_content()
    page.locator("[data-axis=y]").select_option("size")  # the other axis gives way
    assert place.get_attribute("data-y") == "size"
    assert place.get_attribute("data-x") != "size"
    page.locator("[data-axis=x]").select_option("")  # the number of the trial
    assert page.locator(f"{CHART} .label").first.text_content() == "trial"
    page.locator(f"{CHART} .mark").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#detail h2").inner_text().startswith("Trial ")
    assert seen.quiet()


def test_drawn_anew_a_chart_has_the_scales_of_the_page(browser: Any, path: Path) -> None:
    page = opened(browser, path).page
    first = frame(page)
    marks = page.locator(f"{CHART} .mark").count()
    place = page.locator(f"{CHART} .mark").first.get_attribute("cx")
    page.locator("[data-axis=colour]").select_option("speed")
    assert frame(page) == [pytest.approx(scale) for scale in first]
    assert page.locator(f"{CHART} .mark").count() == marks
    assert place in [m.get_attribute("cx") for m in page.locator(f"{CHART} .mark").all()]


def test_a_third_value_is_shown_as_colour(browser: Any, path: Path) -> None:
    seen = opened(browser, path)
    page = seen.page
    assert not page.locator("#shades").is_visible()
    page.locator("[data-axis=colour]").select_option("speed")
    assert page.locator("#shades .key").count() == 6
    assert page.locator(f"{CHART} .dots.shade").count() > 1
    page.locator("[data-axis=colour]").select_option("")
    assert not page.locator("#shades").is_visible()
    assert seen.quiet()


def test_a_frame_looks_closer_and_reset_shows_all_again(browser: Any, path: Path) -> None:
    seen = opened(browser, path)
    page = seen.page
    whole = frame(page)
    chart = page.locator(CHART)
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.6 * box["height"], steps=4)
    page.mouse.up()
    closer = frame(page)
    for (low, high, _), (first, last, _) in zip(closer, whole, strict=True):
        assert first < low < high < last
    assert not page.locator("#detail").is_visible()  # a frame is no click
    page.locator("[data-zoom=reset]").click()
    assert frame(page) == [pytest.approx(scale) for scale in whole]  # of values to seven digits
    assert page.locator("[data-zoom=reset]").is_disabled()
    page.locator("[data-zoom=in]").focus()
    page.keyboard.press("Enter")
    inside = frame(page)[0]
    assert inside[1] - inside[0] == pytest.approx((whole[0][1] - whole[0][0]) / 2)
    page.locator("[data-zoom=out]").click()
    page.locator(CHART).dblclick(position={"x": 3, "y": 3})
    assert frame(page) == [pytest.approx(scale) for scale in whole]
    assert seen.quiet()


def test_two_points_are_compared_side_by_side(browser: Any, path: Path) -> None:
    seen = opened(browser, path)
    page = seen.page
    marks = page.locator(f"{CHART} .mark")
    names = [marks.nth(i).get_attribute("data-trial") for i in (0, marks.count() - 1)]
    marks.first.click(modifiers=["Shift"])
    assert f"Trial {names[0]} is held" in page.locator("#held").inner_text()
    marks.last.click(modifiers=["Shift"])
    box = page.locator("#detail")
    box.locator("tr.changed").first.wait_for()
    assert box.locator("h2").inner_text() == f"Trial {names[0]} and Trial {names[1]}"
    words = box.inner_text()
    assert "Decisions that differ" in words
    assert "differs" in words
    assert box.locator(".drawing img").count() == 2
    box.get_by_role("button", name="Swap").click()
    page.wait_for_function(
        "t => document.querySelector('#detail h2').textContent === t",
        arg=f"Trial {names[1]} and Trial {names[0]}",
    )
    assert seen.quiet()


def test_a_trial_can_be_put_beside_the_baseline(browser: Any, path: Path) -> None:
    seen = opened(browser, path)
    page, box = seen.page, seen.page.locator("#detail")
    page.locator("#trials tbody button").first.click()
    field = box.locator(".picker input")
    assert field.input_value() == "baseline"
    field.fill("99999")
    box.get_by_role("button", name="Compare").click()
    assert box.locator("h2").inner_text() == "Trial 0"  # there is no such trial
    field.fill("baseline")
    field.press("Enter")
    box.get_by_text("Llama shape").or_(box.get_by_text("by hand has")).first.wait_for()
    assert box.locator("h2").inner_text() == "Trial 0 and by hand"
    assert "% " in box.locator(".beside").first.inner_text()
    box.get_by_role("button", name="back to trial 0").click()
    assert box.locator("h2").inner_text() == "Trial 0"
    assert seen.quiet()


def test_trials_without_layers_are_compared_by_their_notation(browser: Any, tmp_path: Path) -> None:
    trials = [done(0, 1.0, 2.0), done(1, 2.0, 3.0)]
    notations = {0: "(sf)x2 in other(64)", 1: "(sf)x3 in other(64)"}
    seen = opened(browser, shown(tmp_path, material(trials, notations=notations)))
    seen.page.locator("#trials tbody button").first.click()
    box = seen.page.locator("#detail")
    box.locator(".picker input").fill("1")
    box.get_by_role("button", name="Compare").click()
    box.locator("mark").first.wait_for()
    assert box.locator("mark").all_inner_texts() == ["x2", "x3"]
    assert seen.quiet()


def test_other_stages_can_be_looked_at(browser: Any, tmp_path: Path) -> None:
    early = [done(i, 5.0 + i, 1.0 + i, steps=10) for i in range(6)]
    late = [done(6 + i, 1.0 + i, 1.0 + i, rung=FINAL_RUNG, steps=90) for i in range(2)]
    found = material([*early, *late], limits={"loss": 9.0}, front=late)
    seen = opened(browser, shown(tmp_path, found))
    page = seen.page
    assert page.locator(f"{CHART} .mark").count() == 2
    page.locator("[data-axis=stage]").select_option("0")
    assert page.locator(f"{CHART} .mark").count() == 6  # each is better in one of the two
    page.locator("#trials tbody button").first.click()
    page.locator("#detail .picker input").fill("7")
    page.locator("#detail .picker button").click()
    words = page.locator("#detail .failed").inner_text()
    assert words == "They were trained for 10 and 90 steps: their qualities cannot be compared."
    page.keyboard.press("Escape")
    assert "limit 9" in page.locator(CHART).text_content()
    page.locator("[data-axis=stage]").select_option(str(FINAL_RUNG))
    assert page.locator(f"{CHART} .mark").count() == 2
    assert seen.quiet()


def test_a_printed_page_leaves_out_what_needs_a_screen(browser: Any, path: Path) -> None:
    page = opened(browser, path).page
    page.emulate_media(media="print", color_scheme="dark")
    assert not page.locator("nav").is_visible()
    assert not page.locator(".controls").first.is_visible()
    assert page.locator("h1").is_visible()
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"  # paper is white, whatever the screen is


def test_everything_that_can_be_pressed_has_a_name(browser: Any, path: Path) -> None:
    page = opened(browser, path).page
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, select, input, [role=button], [role=img], img')]"
        ".filter(e => !(e.ariaLabel || e.alt || e.textContent.trim() || e.labels?.length"
        " || e.getAttribute('aria-label'))).map(e => e.outerHTML)"
    )
    assert nameless == []
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"


_CONTRAST = """() => {
  const parse = (c) => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("main *:not(svg *):not(script):not(option)")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.disabled || !e.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(e.className + " " + e.textContent.slice(0, 30) + " " + ratio);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Any, path: Path, scheme: str) -> None:
    page = opened(browser, path, color_scheme=scheme).page
    assert page.evaluate(_CONTRAST) == []


@pytest.mark.parametrize("wide", [1400, 400])
def test_a_search_that_failed_or_still_runs_has_a_page(
    browser: Any, tmp_path: Path, wide: int
) -> None:
    size = {"width": wide, "height": 900}
    bad = material([failed(i, "no room on the disk") for i in range(4)])
    seen = opened(browser, shown(tmp_path, bad), viewport=size)
    head = seen.page.locator("#result").inner_text()
    assert "None of 4 trials has a result: all failed." in head
    assert "no room on the disk" in head
    assert seen.page.locator("#failures").is_visible()
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= wide
    assert seen.quiet()
    seen = opened(browser, shown(tmp_path, SHAPES["running"]), viewport=size)
    assert "under way" in seen.page.locator("h1").inner_text()
    assert "the best so far" in seen.page.locator("#recommended").inner_text()
    assert seen.quiet()


def test_twenty_thousand_trials_open_and_answer(browser: Any, tmp_path: Path) -> None:
    members = list(toy.tiny().members())
    trials = [
        done(i, (i * 7919) % 10007 / 100, (i * 104729) % 10009 / 100, decisions=members[i % 12])
        for i in range(20_000)
    ]
    words = {i: f"notation {i}" for i in range(20_000)}
    baseline = Baseline("by hand", "", "", {"loss": 50.0, "speed": 50.0})
    found = material(trials, space=toy.tiny(), notations=words, outcome=Outcome(baseline))
    file = shown(tmp_path, found)
    assert file.stat().st_size < 15_000_000
    seen = opened(browser, file)
    page = seen.page
    assert "20,000 of 20,000 trials" in page.locator("#pages").inner_text()
    page.locator("[data-axis=x]").select_option("")
    page.locator("[data-zoom=in]").click()
    page.locator("[data-filter=text]").fill("notation 19999")
    assert page.locator("#trials tbody tr").count() == 1
    assert seen.quiet()
