"""Recorded curves as problems for strategies: what the benchmark of the ladder replays."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from formwright.errors import FormatError


@pytest.fixture
def tables() -> Any:
    import curve_tables  # type: ignore[import-not-found,unused-ignore]

    return curve_tables


def model(width: int, kind: str, first: float, *, broken: bool = False) -> dict[str, Any]:
    """As ``benchmarks/curves.py`` writes one."""
    looks = [first, first - 1, first - 1.5]
    curves = [
        {
            "seed": seed,
            "steps": [40, 80, 160][: 2 if broken else 3],
            "bits_per_byte": [value + 0.1 * seed for value in looks][: 2 if broken else 3],
            "final": None if broken else first - 2 + 0.1 * seed,
            "step_seconds": 0.01 * width,
            "losses": [float(9 - i) for i in range(8)],
        }
        for seed in (0, 1)
    ]
    decisions = {"width": width, "kind": kind}
    words = "sf in gpt2(32) for frame(16, 16, lm)"
    return {"notation": words, "decisions": decisions, "latency": width / 2, "curves": curves}


def written(folder: Path, models: list[dict[str, Any]]) -> Path:
    path = folder / "curves.json"
    path.write_text(json.dumps({"models": models}))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [model(1, "a", 4.0), model(2, "b", 5.0), model(4, "a", 3.5), model(3, "b", 3.0)]
    return written(tmp_path, rows)


def test_a_table_of_our_own_is_read(tables: Any, path: Path) -> None:
    table = tables.own_table(path)
    assert table.full == round(160 / 0.7)
    assert table.price == pytest.approx([0.4, 0.8, 1.6, 1.2])
    assert table.truth == pytest.approx([2.05, 3.05, 1.55, 1.05])
    assert table.loss(1, 0, 80) == pytest.approx(4.0)
    assert table.loss(1, 1, 80) == pytest.approx(4.1)
    assert table.loss(1, 0, 80 * 2**0.5) == pytest.approx(3.75)  # half way by the logarithm
    assert table.loss(1, 0, table.full) == pytest.approx(3.0)
    columns = table.space.columns()
    assert columns[:2] == ["width", "width in play"]
    assert 'kind="a"' in columns
    assert table.space.encode({"row": 2})[0] == 1.0
    assert table.slopes.shape == (4, 2, 3)
    assert (table.slopes > 0).all()


def test_a_training_that_broke_off_has_no_value_later_and_no_end(tables: Any, path: Path) -> None:
    rows = [*json.loads(path.read_text())["models"], model(2, "a", 4.0, broken=True)]
    table = tables.own_table(written(path.parent, rows))
    assert table.loss(4, 0, 60) > 0
    assert np.isnan(table.loss(4, 0, 160))
    assert table.truth[4] == float("inf")


def test_what_is_no_table_is_told_in_one_sentence(tables: Any, path: Path) -> None:
    rows = json.loads(path.read_text())["models"]
    rows[1]["curves"][0]["steps"] = [1, 2, 3]
    with pytest.raises(FormatError, match="not all looked at after the same steps"):
        tables.own_table(written(path.parent, rows))
    with pytest.raises(FormatError, match="is no table of learning curves"):
        tables.own_table(written(path.parent, [{"decisions": {}}]))


def test_changes_lead_to_rows_that_are_alike(tables: Any) -> None:
    table = tables.crossing_table(rows=60)
    space, rng = table.space, Random(0)
    changed = [space.distance({"row": 3}, space.change({"row": 3}, rng)) for _ in range(40)]
    drawn = [space.distance({"row": 3}, space.draw(rng)) for _ in range(40)]
    assert np.mean(changed) < 0.7 * np.mean(drawn)
    child = space.blend({"row": 1}, {"row": 2}, rng)
    assert child["row"] not in (1, 2)
    assert table.row_like(table.members[5], [5]) != 5
    alike = table.row_like(table.members[5], [])
    assert table.members[alike] == table.members[5]


def test_every_method_can_be_scored(tables: Any, path: Path) -> None:
    pytest.importorskip("optuna")
    import ladder  # type: ignore[import-not-found,unused-ignore]

    case = ladder.Case(tables.crossing_table(rows=40, seeds=2), (90, 270, 810), (3.0,))
    for name, method in ladder.METHODS.items():
        for objectives in ((ladder.LOSS,), (ladder.LOSS, ladder.LATENCY)):
            if name in ladder.ONE_ONLY and len(objectives) > 1:
                continue
            found = ladder.score(method, case, objectives, 4.0, 0)
            assert 0 <= found <= (1.0 if len(objectives) > 1 else 2.0), name


def test_training_costs_what_is_new_in_it(tables: Any) -> None:
    import ladder  # type: ignore[import-not-found,unused-ignore]

    table = tables.crossing_table(rows=40)
    case = ladder.Case(table, (90, 270), (3.0,))
    search = ladder.METHODS["asha"].make(case, 0, (ladder.LOSS,))
    trials = ladder.spend(search, table, case.stages, 2000.0, 0)
    paid = sum((90, 180)[t.rung] * table.price[t.decisions["row"]] for t in trials)
    assert 1500 < paid <= 2000
    assert {trial.rung for trial in trials} == {0, 1}


def test_finalists_of_two_costs_cover_the_front_together(tables: Any) -> None:
    import ladder  # type: ignore[import-not-found,unused-ignore]

    costs = np.array([[0.0, 1.0], [0.05, 0.9], [0.5, 0.5], [0.9, 0.05], [1.0, 0.0], [1.0, 1.0]])
    assert ladder.chosen(costs, 1) == [2]
    assert set(ladder.chosen(costs, 3)) == {1, 2, 3}
    assert ladder.chosen(costs[:, :1], 2) == [0, 1]
