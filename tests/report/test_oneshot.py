"""Sections of one-shot searches: what they compute, and that nothing in a file breaks them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.report.material import material, payloads
from tests.report.oneshot import (
    SLOTS,
    STEPS,
    competed,
    gates,
    lines,
    order,
    priced,
    pruned,
    searched,
    share,
    written,
)
from tests.report.test_page import Reader

from formwright.arch.frame import Frame, Tag
from formwright.report import page_html
from formwright.report.material import Material
from formwright.report.sections.gates import cost_info, gates_info
from formwright.report.sections.pruning import pruning_info
from formwright.report.sections.selected import selected_info
from formwright.report.sections.shares import shares_info
from formwright.report.supernet import methods_of, place_of, stem_of, trace_of
from formwright.space.components import Cut
from formwright.trace import FILE, Trace

SECTIONS = ("selected", "shares", "pruning", "gates")


def shown(found: Material) -> list[str]:
    ids = Reader(page_html(found)).ids()
    return [name for name in ids if name in SECTIONS]


def test_sections_are_there_where_their_files_are(tmp_path: Path) -> None:
    assert shown(material([])) == []
    assert shown(searched(tmp_path / "a")) == ["selected", "shares", "gates"]
    assert shown(pruned(tmp_path / "b")) == ["selected", "pruning"]
    bare = tmp_path / "c"
    bare.mkdir()
    assert shown(material([], folder=bare)) == []


def test_the_heat_map_shows_the_last_probabilities_and_the_order(tmp_path: Path) -> None:
    (info,) = shares_info(trace_of(searched(tmp_path)))
    assert info.step == 20 * STEPS
    assert info.group.options == ("self-attention", "feed-forward", "identity")
    assert info.shares == [tuple(share(slot, STEPS)) for slot in range(SLOTS)]
    wanted = "".join("sfi"[row.index(max(row))] for row in info.shares)
    assert info.order == wanted
    assert wanted.startswith("sss")
    assert wanted.endswith("ff")
    page = Reader(page_html(searched(tmp_path)))
    assert wanted in page.words
    first = share(0, STEPS)[0]
    assert f"layer0, self-attention: {first:.1%}" in page.words
    taken = [a for n, a in page.tags if n == "rect" and a.get("class") == "heat taken"]
    assert len(taken) == 2 * SLOTS, "one in each column, on both sheets"


def test_the_strip_counts_what_is_alive_and_what_lasted_is_on_top(tmp_path: Path) -> None:
    (info,) = pruning_info(trace_of(pruned(tmp_path)))
    assert info.name == "heads"
    assert info.stages == list(range(7))
    rows = {kind.words: (kind.alive, kind.total) for kind in info.kinds}
    assert rows["performer attention"] == ([2, 2, 2, 2, 2, 1, 1], 2)
    assert rows["local attention"] == ([2, 1, 1, 0, 0, 0, 0], 2)
    assert rows["self-attention"] == ([2, 2, 2, 2, 2, 2, 1], 2)
    assert [kind.words for kind in info.kinds][:2] == ["self-attention", "performer attention"]
    assert [kind.words for kind in info.kinds][-1] == "local attention"
    scores = {kind.words: kind.score for kind in info.kinds}
    assert scores["local attention"] == pytest.approx((0.10 + 0.08) / 2), "the last each had"
    page = Reader(page_html(pruned(tmp_path)))
    assert "stage 5, performer attention: 1 of 2 alive" in page.words
    assert "8 heads are alive" in page.words


def test_gates_are_followed_over_time_with_their_mean(tmp_path: Path) -> None:
    (info,) = gates_info(trace_of(searched(tmp_path)))
    assert [part.words for part in info.series] == ["self-attention", "feed-forward", "identity"]
    for option, part in enumerate(info.series):
        assert len(part.each) == SLOTS
        step, mean = part.mean[4]
        assert step == 100
        wanted = sum(share(slot, 5)[option] for slot in range(SLOTS)) / SLOTS
        assert mean == pytest.approx(wanted)


def test_costs_are_prices_times_gates(tmp_path: Path) -> None:
    info = cost_info(trace_of(priced(tmp_path)))
    assert info is not None
    assert info.names == ["self-attention", "feed-forward"], "identity costs nothing"
    assert info.whole == [pytest.approx(0.06 * SLOTS), pytest.approx(0.02 * SLOTS)]
    last = [share(slot, STEPS) for slot in range(SLOTS)]
    wanted = sum(0.06 * row[0] + 0.02 * row[1] for row in last)
    assert info.lines[1][-1][1] == pytest.approx(sum(0.02 * row[1] for row in last))
    assert info.total[-1] == (20 * STEPS, pytest.approx(wanted))
    assert "expected cost" in Reader(page_html(priced(tmp_path))).words
    assert cost_info(trace_of(searched(tmp_path / "unpriced"))) is None


def test_each_method_has_a_panel_of_its_own_gates(tmp_path: Path) -> None:
    found = competed(tmp_path)
    first, second = methods_of(found)
    assert [(m.name, m.price) for m in (first, second)] == [("a", 2.0), ("b", 2.0)]
    ends = []
    for method in (first, second):
        (info,) = gates_info(method.trace)
        ends.append(info.series[0].mean[-1][1])
        cost = cost_info(method.trace)
        assert cost is not None
        assert cost.total[-1][1] == pytest.approx(0.06 * ends[-1]), "prices are those of all"
    assert ends == [0.5, 0.0]
    words = Reader(page_html(found)).words
    assert "Search a, at price 2: trial 0, which the headline is about" in words
    assert "Search b, at price 2: trial 1" in words
    assert "trial 1, which" not in words
    assert words.count("expected cost") > Reader(page_html(priced(tmp_path / "c"))).words.count(
        "expected cost"
    )


def test_a_search_without_methods_has_no_title(tmp_path: Path) -> None:
    found = priced(tmp_path)
    (method,) = methods_of(found)
    assert (method.name, method.trace) == ("", trace_of(found))
    assert "Search " not in Reader(page_html(found)).words


@pytest.mark.parametrize(
    "place", ["../other", "/etc", "..", "supernet/../../other", "\0", "\ud800", 3, None]
)
def test_methods_are_read_from_the_study_only(tmp_path: Path, place: object) -> None:
    other = competed(tmp_path / "other")
    assert len(methods_of(other)) == 2
    found = competed(tmp_path / "study")
    data = {"method": "a", "price": 1, "folder": place}
    lines(tmp_path / "study" / "supernet", "found", [data])
    assert [method.name for method in methods_of(found)] == ["b"]
    assert not Reader(page_html(found)).open


def test_gates_of_slices_share_a_colour(tmp_path: Path) -> None:
    written(tmp_path / "supernet", order(2))
    rows = [
        {"step": step, "name": f"inner{i}", "values": [1.0, 1.0 - 0.1 * step, -0.2, 0.5]}
        for step in range(5)
        for i in range(3)
    ]
    gates(tmp_path / "supernet", rows)
    found = material([], folder=tmp_path)
    (info,) = gates_info(trace_of(found))
    (part,) = info.series
    assert len(part.each) == 12
    assert (info.low, info.high) == (-0.2, 1.0)
    assert part.mean[-1] == (4, pytest.approx((1.0 + 0.6 - 0.2 + 0.5) / 4))
    assert shares_info(trace_of(found)) == [], "they are no probabilities"


def test_of_a_part_that_is_on_or_off_only_the_first_is_drawn(tmp_path: Path) -> None:
    cut = Cut(layers=2, width=8, heads=2, inner=16, head_parts=2, inner_parts=2)
    written(tmp_path / "supernet", cut.components(Frame(9, 8, Tag(3))))
    names = [f"head{layer}.{part}" for layer in range(2) for part in range(2)]
    rows = [
        {"step": step, "name": name, "values": [0.1 * step, 1 - 0.1 * step]}
        for step in range(5)
        for name in names
    ]
    gates(tmp_path / "supernet", rows)
    (info,) = gates_info(trace_of(material([], folder=tmp_path)))
    assert (info.group.title, len(info.group.names)) == ("head", 4)
    (part,) = info.series
    assert len(part.each) == 4
    assert part.mean[-1] == (4, pytest.approx(0.6))


def test_the_page_is_about_the_trial_that_the_headline_speaks_of(tmp_path: Path) -> None:
    found = searched(tmp_path)
    long = "Trial 1 has 2.5 bits. The others have more, e.g. 3.1. Warning: few seeds."
    other = replace(found, outcome=replace(found.outcome, headline=long, chosen=1))
    info = selected_info(other)
    assert info is not None
    assert info.trial.number == 1
    page = page_html(other)
    assert "<h1>Trial 1 has 2.5 bits.</h1>" in page
    assert "The others have more, e.g. 3.1. Warning: few seeds.</p>" in page


def test_trials_that_were_given_have_names_and_no_progress(tmp_path: Path) -> None:
    found = searched(tmp_path)
    assert "progress" in Reader(page_html(found)).ids()
    meta = {**found.meta, "strategy": {"name": "given", "options": {}}}
    given = page_html(replace(found, meta=meta))
    assert "progress" not in Reader(given).ids()
    assert "trial 0<small>found by the supernet</small>" in given


def test_the_selected_architecture_stands_beside_the_baseline(tmp_path: Path) -> None:
    found = searched(tmp_path)
    info = selected_info(found)
    assert info is not None
    assert info.found == found.architecture(found.trials[0])
    assert info.baseline == found.baseline
    page = Reader(page_html(found))
    pictures = [a for n, a in page.tags if n == "img"]
    assert [a["alt"] for a in pictures[-2:]] == [
        "Drawing of Trial 0: found by the supernet",
        "Drawing of plain order (sf)x6",
    ]
    assert all(str(a["src"]).startswith("data:image/svg+xml;base64,") for a in pictures)


def test_many_looks_are_thinned_from_first_to_last(tmp_path: Path) -> None:
    written(tmp_path / "supernet", order(2))
    rows = [{"step": s, "name": "layer0", "values": [0.5, 0.25, 0.25]} for s in range(5000)]
    gates(tmp_path / "supernet", rows)
    looks = trace_of(material([], folder=tmp_path)).looks
    assert len(looks) == 160
    assert (looks[0].step, looks[-1].step) == (0, 4999)


@pytest.mark.parametrize(
    ("name", "stem", "place"),
    [
        ("layer3", "layer", "4"),
        ("heads", "heads", "heads"),
        ("7", "7", "7"),
        ("a_0", "a", "1"),
        ("close_head2.11", "close_head", "3"),
        ("mean0a", "mean", "1"),
    ],
)
def test_names_are_split_from_their_numbers(name: str, stem: str, place: str) -> None:
    assert (stem_of(name), place_of(name)) == (stem, place)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut off": lambda p: p.write_bytes(p.read_bytes()[:-25]),
    "binary": lambda p: p.write_bytes(bytes(range(256)) * 50),
    "empty": lambda p: p.write_bytes(b""),
    "other JSON": lambda p: p.write_text(
        '[1, 2]\n{"kind": "gates", "step": "x"}\nnull\n{"kind": 3}\n{"step": 1}\n'
        '{"kind": "stage", "stage": 1, "alive": 3, "words": ""}\n{"kind": "prices"}\n'
        '{"kind": "found", "method": []}\n{"kind": "space", "space": 4}\n'
    ),
    "strange numbers": lambda p: p.write_text(
        '{"kind": "gates", "step": 1, "values": {"layer0": [NaN, 1, 0]}}\n'
        '{"kind": "gates", "step": 2, "values": {"layer0": [1e999, 1, 0]}}\n'
        '{"kind": "gates", "step": true, "values": {"layer0": [1, 0, 0]}}\n'
        '{"kind": "prices", "values": {"layer0": [NaN], "layer1": "x"}}\n'
        '{"kind": "stage", "stage": 0, "alive": {"heads": [0, "x", null]}, "words": "",'
        ' "scores": {"heads": {"a": 1, "0": []}}}\n'
    ),
    "deep": lambda p: p.write_text("[" * 100_000),
    "gone": lambda p: p.unlink(),
    "a folder": lambda p: (p.unlink(), p.mkdir())[0],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("made", [priced, pruned])
def test_a_damaged_trace_breaks_nothing(
    tmp_path: Path, damage: str, made: Callable[[Path], Material]
) -> None:
    found = made(tmp_path)
    DAMAGE[damage](tmp_path / "supernet" / FILE)
    assert not Reader(page_html(found)).open


def test_of_a_trace_that_was_cut_off_only_the_last_line_is_lost(tmp_path: Path) -> None:
    found = searched(tmp_path)
    DAMAGE["cut off"](tmp_path / "supernet" / FILE)
    (info,) = shares_info(trace_of(found))
    assert info.step == 20 * (STEPS - 1)
    Trace(tmp_path / "supernet").add("gates", step=9999, values={"layer0": [1.0, 0.0, 0.0]})
    assert trace_of(found).looks[-1].step == 9999, "what is added later is whole"


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_method_leaves_the_other(tmp_path: Path, damage: str) -> None:
    found = competed(tmp_path)
    DAMAGE[damage](tmp_path / "supernet" / "b" / "price-2" / FILE)
    page = Reader(page_html(found))
    assert not page.open
    assert "Search a, at price 2" in page.words


def test_hostile_words_in_the_files_stay_words(tmp_path: Path) -> None:
    supernet = tmp_path / "supernet"
    words = payloads()
    rows = [
        {"step": step, "name": name, "values": [0.5, 0.5]} for step in (1, 2) for name in words[:40]
    ]
    gates(supernet, rows)
    stages = [
        {"stage": i, "alive": {words[i]: [0, 1]}, "scores": {words[i]: {"0": 1.0}}, "words": word}
        for i, word in enumerate(words[:60])
    ]
    lines(supernet, "stage", stages)
    lines(supernet, "prices", [{"values": {name: [1.0, 0.0] for name in words[:40]}}])
    settled = [
        {"method": word, "folder": "supernet" if number % 2 else word}
        for number, word in enumerate(words)
    ]
    lines(supernet, "found", settled)
    page = Reader(page_html(material([], folder=tmp_path)))
    assert not page.open
    assert not [n for n, _ in page.tags if n in ("iframe", "base", "form", "object")]
    assert sum(n == "script" for n, _ in page.tags) == 4
    assert not [a for n, a in page.tags for k in a if k.startswith("on")]
