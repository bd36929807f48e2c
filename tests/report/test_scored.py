"""Sections of searches with a teacher: students over their cost, blocks that shrink."""

from pathlib import Path
from typing import Any

import pytest
from tests.report.material import material
from tests.report.oneshot import lines
from tests.report.test_page import Reader

from formwright.report import page_html
from formwright.report.sections.scored import scored_info
from formwright.report.sections.shrinking import shrinking_info

ROWS = [
    {"part": "tiny", "decisions": {}, "loss": 0.4, "costs": {"flops": 10.0, "params": 1.0}},
    {"part": "tiny", "decisions": {}, "loss": 0.5, "costs": {"flops": 20.0, "params": 2.0}},
    {"part": "base", "decisions": {}, "loss": 0.1, "costs": {"flops": 40.0, "params": 3.0}},
]


def studied(folder: Path, **rows: list[dict[str, Any]]) -> Any:
    folder.mkdir(exist_ok=True)
    for kind, found in rows.items():
        lines(folder / "supernet", kind, found)
    return material([], folder=folder)


def test_students_are_drawn_over_their_cost(tmp_path: Path) -> None:
    found = studied(tmp_path, scored=[{"rows": ROWS, "limits": {"flops": 25.0}}])
    info = scored_info(found)
    assert info is not None
    assert (info.cost, info.limit) == ("flops", 25.0)
    assert [s.loss for s in info.best] == [0.4, 0.1], "nobody cheaper has a lower loss"
    assert info.parts == {"tiny": (2, 0.4), "base": (1, 0.1)}
    page = Reader(page_html(found))
    assert "scored" in page.ids()
    assert "3 students scored inside the supernets" in page.words


def test_parameters_stand_in_where_flops_are_not_known(tmp_path: Path) -> None:
    rows = [{**row, "costs": {"params": row["costs"]["params"]}} for row in ROWS]
    info = scored_info(studied(tmp_path, scored=[{"rows": rows, "limits": {"flops": 1.0}}]))
    assert info is not None
    assert (info.cost, info.limit) == ("params", None)


def test_what_was_left_of_each_bin_is_drawn_round_by_round(tmp_path: Path) -> None:
    binned = [{"block": 0, "lost": 5, "bins": {"1": 8, "2": 4}}]
    shrunk = [
        {"block": 0, "round": 0, "bins": {"1": 4, "2": 2}, "best": {"1": 0.5, "2": 0.2}},
        {"block": 0, "round": 1, "bins": {"1": 2, "2": 2}, "best": {"1": 0.4, "2": 0.1}},
    ]
    found = studied(tmp_path, binned=binned, shrunk=shrunk)
    (info,) = shrinking_info(found)
    assert (info.block, info.lost) == (1, 5)
    assert [(b.number, b.left, b.best) for b in info.bins] == [
        (2, [4, 2, 2], 0.1),
        (1, [8, 4, 2], 0.4),
    ]
    page = Reader(page_html(found))
    assert "shrinking" in page.ids()
    assert "Block 1: 4 left; 5 of 17 lay in no bin" in page.words


@pytest.mark.parametrize(
    "broken",
    [
        {"scored": [{"rows": "none"}]},
        {"scored": [{"rows": [{"loss": "x"}, 3, {"loss": 1.0}], "limits": 4}]},
        {"scored": [{}], "binned": [{"block": "x"}, {"bins": {"a": 1}, "block": 0}]},
        {"binned": [{"block": 0, "bins": {"1": "many"}}], "shrunk": [{"round": "x"}]},
        {"binned": [{"block": 0, "bins": {"1": 4}}], "shrunk": [{"block": 0, "round": 0}]},
    ],
)
def test_damaged_lines_break_nothing(tmp_path: Path, broken: dict[str, Any]) -> None:
    assert page_html(studied(tmp_path, **broken))


def test_studies_without_students_have_no_such_sections(tmp_path: Path) -> None:
    page = Reader(page_html(studied(tmp_path)))
    assert not {"scored", "shrinking"} & set(page.ids())
