"""Peers beside ours: the lines that both sides speak, and verdicts that follow from the figures."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from claims import side_by_side
from claims.row import Row
from claims.running import Setting
from evidence import ROWS
from rival import Rival, RivalError

from tests.benchmarks import BENCHMARKS

FAKE = """
import sys

sys.path.insert(0, {place!r})
from lines import serve

def add(a, b):
    print("chatter that is no answer")
    return a + b

def fail():
    raise ValueError("it cannot\\nbe done")

def leave():
    sys.stderr.write("last words")
    sys.stderr.flush()
    import os
    os._exit(3)

serve({{"add": add, "fail": fail, "leave": leave}})
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    """A peer that can add, fail and end."""
    script = tmp_path / "fake_side.py"
    script.write_text(FAKE.format(place=str(BENCHMARKS / "rivals")), encoding="utf-8")
    return script


def python() -> Path:
    return Path(sys.executable)


def test_a_peer_answers_in_lines_whatever_it_prints(fake: Path) -> None:
    with Rival(python(), fake) as rival:
        value, seconds = rival.ask("add", a=1, b=2)
        assert value == 3
        assert 0 <= seconds < 60
        assert rival.ask("add", a=2, b=2)[0] == 4
        assert "chatter" in rival.said()


def test_what_a_peer_cannot_do_is_said_in_one_line_and_it_goes_on(fake: Path) -> None:
    with Rival(python(), fake) as rival:
        with pytest.raises(RivalError, match=r"^ValueError: it cannot$"):
            rival.ask("fail")
        with pytest.raises(RivalError, match="KeyError"):
            rival.ask("unknown")
        assert rival.ask("add", a=1, b=1)[0] == 2


def test_a_peer_that_ends_leaves_its_last_words(fake: Path) -> None:
    with Rival(python(), fake) as rival, pytest.raises(RivalError, match=r"code 3: .*last words"):
        rival.ask("leave")


# --- verdicts ---------------------------------------------------------------------------


def candidates(*ours: float) -> dict[str, Any]:
    rows = [
        {
            "candidates": 160,
            "ms": {"archai": 100.0, "ours": each},
            "ms_drawn_and_counted": {"archai": 90.0, "ours": 0.5},
        }
        for each in ours
    ]
    return {"counts_of_each": {"members": 4, "same": 0, "same_when_tied": 4}, "seeds": rows}


def test_a_candidate_must_cost_less_with_every_seed() -> None:
    assert side_by_side.archai(candidates(2.0, 3.0)).verdict == "yes"
    assert side_by_side.archai(candidates(2.0, 101.0)).verdict == "partly"
    assert side_by_side.archai(candidates(102.0, 101.0)).verdict == "no"
    assert "what both find is not compared" in side_by_side.archai(candidates(2.0)).found


def test_latency_that_did_not_run_is_not_measured() -> None:
    assert side_by_side.latency({"error": "no export", "rows": []}).verdict == "open"
    row = {"seconds": {"archai": 10.0, "ours": 12.0}}
    assert side_by_side.latency({"error": "", "rows": [row]}).verdict == "no"


def supernets(ours: tuple[float, float, float]) -> dict[str, Any]:
    ways = {"whittle adamw": (1.9, 2.0, 2.2), "whittle muon": (1.8, 1.9, 2.1), "ours muon": ours}
    rows = [
        {
            "way": way,
            "seed": seed,
            "steps": 100,
            "nats": {
                name: value + 0.001 * seed
                for name, value in zip(side_by_side.MEMBERS, values, strict=True)
            },
        }
        for way, values in ways.items()
        for seed in (0, 1)
    ]
    return {"seconds": 18.0, "rates": dict.fromkeys(ways, 1e-3), "rows": rows}


def test_sub_networks_are_held_against_the_best_way_of_the_rival() -> None:
    assert side_by_side.whittle(supernets((1.7, 1.8, 2.0))).verdict == "yes"
    assert side_by_side.whittle(supernets((1.85, 1.8, 2.0))).verdict == "partly"
    assert side_by_side.whittle(supernets((1.85, 1.95, 2.15))).verdict == "no", "beats AdamW alone"


def trial(milliseconds: float) -> dict[str, float]:
    return {"trials": 10.0, "wall_ms": milliseconds, "processor_ms": milliseconds}


@pytest.mark.parametrize(
    ("ours", "default", "verdict"),
    [(1.0, 900.0, "yes"), (20.0, 900.0, "partly"), (1000.0, 900.0, "no"), (1.0, None, "partly")],
)
def test_a_trial_is_held_against_both_engines(
    ours: float, default: float | None, verdict: str
) -> None:
    row = {
        "ours": trial(ours),
        "sequential": trial(8.0),
        "default": None if default is None else trial(default),
    }
    told = side_by_side.nni({"seeds": [row, row]})
    assert told.verdict == verdict
    assert ("did not run" in told.found) == (default is None)


def test_a_record_survives_only_where_the_disk_holds_what_was_done() -> None:
    def told(ours: int, theirs: int) -> str:
        return side_by_side.kept(
            {"ours": {"done": 10, "on_record": ours}, "nni": {"done": 10, "on_record": theirs}}
        ).verdict

    assert told(10, 0) == "yes"
    assert told(9, 0) == "no"
    assert told(10, 10) == "no"


# --- short forms ------------------------------------------------------------------------


def test_short_forms_take_a_peer_from_the_folder_that_is_given(tmp_path: Path) -> None:
    rows: list[Row] = [row for row in ROWS if row.script == "peers.py"]
    assert rows
    for row in rows:
        assert Setting(tmp_path, None, tmp_path, 1).words(row) is None
        words = Setting(tmp_path, None, tmp_path, 1, tmp_path / "envs").words(row)
        assert words is not None
        place = Path(words[words.index("--python") + 1])
        assert place == tmp_path / "envs" / words[0] / "bin" / "python"


def test_rows_of_peers_read_what_is_on_record() -> None:
    path = BENCHMARKS / "results" / "peers.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, part in known.items():
        assert part["versions"], name
        assert not part["short"], "short figures are not published"
