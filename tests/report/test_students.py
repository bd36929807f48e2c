"""The students of a teacher on the page: figures as they were kept, hostile words as words."""

import json
from pathlib import Path
from typing import Any

from tests.report.material import done, material

from formwright.report.chart import SHEETS
from formwright.report.sections.students import (
    scores_svg,
    students_html,
    students_info,
    students_svg,
)


def row(
    role: str, quality: float, latency: float, trial: int | None = 0, limit: str = "speedup=2"
) -> dict[str, Any]:
    return {
        "role": role, "limit": limit, "trial": trial, "quality": quality, "low": quality - 0.01,
        "high": quality + 0.01, "loss": 0.3, "latency": latency, "latency_low": latency,
        "latency_high": latency, "params": 1e6, "agreement": 0.9,
    }  # fmt: skip


KEPT = {
    "quality": {"name": "accuracy", "direction": "max"},
    "rows": [
        row("teacher", 0.93, 20.0, None, ""),
        row("found", 0.92, 10.0),
        row("fewer layers", 0.88, 10.1, 1),
    ],
    "limits": [{"text": "speedup=2", "words": "2 times as fast"}],
    "places": [
        {"name": "layer00", "kind": "attention", "alternatives": ["whole", "heads 1", "nothing"]},
        {"name": "layer01", "kind": "feedforward", "alternatives": ["whole", "inner 8"]},
    ],
    "scores": [[0.0, 0.01, 0.16], [0.0, 0.04]],
    "errors": [[0.0, 0.1, 1.0], [0.0, 0.2]],
    "found": {
        "speedup=2": {
            "names": ["heads 1", "whole"],
            "rounds": [{"choice": [1, 0], "expected": 0.01, "found": 0.012}],
        }
    },
    "examples": [{"given": "<script>", "teacher": "a", "student": "b"}],
}


def kept(folder: Path) -> Any:
    (folder / "phases").mkdir()
    (folder / "phases" / "students.json").write_text(json.dumps(KEPT))
    return material([done(0, 1.0, 1.0), done(1, 2.0, 1.0)], folder=folder)


def test_without_students_there_is_no_section() -> None:
    assert students_html(material([done(0, 1.0, 1.0)])) is None


def test_blocks_that_lose_most_are_fullest(tmp_path: Path) -> None:
    info = students_info(kept(tmp_path))
    assert info is not None
    assert info.blocks() == ["whole", "heads 1", "nothing", "inner 8"]
    assert info.strength(0, "nothing") == 1
    assert info.strength(0, "heads 1") == 0.25
    assert info.strength(0, "inner 8") is None
    for sheet in SHEETS:
        drawn = scores_svg(info, sheet)
        assert drawn.count("heat taken") == 2
        assert drawn.count("<rect") == 5
        assert "found: accuracy 0.92, 10 ms" in students_svg(info, sheet)


def test_the_section_shows_every_student_and_what_survived(tmp_path: Path) -> None:
    found = students_html(kept(tmp_path))
    assert found is not None
    for words in ("fewer layers", "2 times as fast", "Which layers survive", "&lt;script&gt;"):
        assert words in found
    assert "<script>" not in found
