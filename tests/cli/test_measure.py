"""``formwright measure`` and ``formwright targets`` as a user meets them."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tests.cli.test_cli import result, run
from tests.cli_helpers import InProcess
from tests.test_imports import modules_after

from formwright.cost import load_target
from formwright.cost.curve import Point, curve_svg

TINY = "sf in gpt2(16) for frame(50, 64, lm)"
OTHER = "(sf)x3 in gpt2(16) for frame(50, 64, lm)"


def test_targets_lists_what_there_is_and_what_is_missing() -> None:
    found = result("targets")
    assert {"cpu", "devices", "threads", "energy", "fingerprint", "runtimes"} <= set(found)
    runtimes = {row["name"]: row for row in found["runtimes"]}
    assert runtimes["eager"]["install"] is None
    assert runtimes["eager"]["dtypes"] == ["fp32", "bf16", "int8"]
    for row in runtimes.values():
        assert (row["install"] is None) or row["install"].startswith("pip install ")
    lines = run("targets").stdout.splitlines()
    assert max(map(len, lines)) <= 80


def test_listing_targets_does_not_load_torch() -> None:
    assert "torch" not in modules_after("from formwright.cli import targets; targets._data()")


def test_measure_gives_one_object_per_architecture() -> None:
    rows = result("measure", TINY, OTHER, "--seconds", "0.3", "--target", "length=16")
    keys = {"name", "latency_ms", "ratio", "ratio_low", "ratio_high"}
    keys |= {"peak_bytes", "flops", "params", "target"}
    assert all(keys <= set(row) for row in rows)
    assert [row["name"] for row in rows] == [TINY, OTHER]
    for row in rows:
        assert row["ratio_low"] <= row["ratio"] <= row["ratio_high"]
        assert row["target"] == "eager,length=16"
        assert row["peak_bytes"] > 0
    assert rows[1]["flops"] > rows[0]["flops"]
    assert rows[1]["params"] > rows[0]["params"]


def test_measure_prints_a_table_and_draws(tmp_path: Path) -> None:
    drawing = tmp_path / "m.svg"
    done = run(
        *("measure", TINY, "--against", OTHER, "--seconds", "0.05", "--no-memory"),
        *("--target", "length=16", "--svg", str(drawing)),
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("drawn into")]
    assert max(map(len, lines)) <= 80
    assert "95 % interval" in done.stdout
    assert "\x1b" not in done.stdout
    picture = ET.fromstring(drawing.read_text())
    assert picture.tag.endswith("svg")
    assert "prefers-color-scheme:dark" in drawing.read_text()


def test_a_calibrated_target_is_kept_and_used(tmp_path: Path) -> None:
    file = tmp_path / "here.json"
    words = ("--save", str(file), "--target", "length=16", "--seconds", "0.1")
    done = run("targets", *words)
    assert done.returncode == 0, done.stderr
    target = load_target(file)
    assert target.name == "here"
    assert target.reference_ms is not None
    words = ("--target", str(file), "--seconds", "0.1", "--no-memory")
    (row,) = result("measure", TINY, *words)
    assert row["latency_ms"] == pytest.approx(row["ratio"] * target.reference_ms)
    document = json.loads(file.read_text())
    document["target"]["fingerprint"] = "elsewhere"
    file.write_text(json.dumps(document))
    (row,) = result("measure", TINY, *words)
    assert any("another machine" in note for note in row["notes"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("measure", TINY, "--target", "dtype=fp16"), "slower than fp32"),
        (("measure", TINY, "--target", "phase=decode"), "past=128"),
        (("measure", TINY, "--target", "length=999"), "longer than the 64"),
        (("measure", TINY, "--target", "none.json"), "No such file"),
        (("measure", TINY, "--seconds", "0"), "between 0 and 3600"),
        (("measure", TINY, "--precision", "2"), "0.02 stands for 2 %"),
        (("measure", "bert-bas"), "Did you mean 'bert-base'"),
        (("measure",), "Missing argument"),
        (("targets", "--save", "no/such/a.json"), "there is no folder"),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(
    words: tuple[str, ...], says: str, in_process: InProcess
) -> None:
    done = in_process(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_curve_is_drawn_for_any_names_and_values() -> None:
    curves = {
        "<b>&": [Point(1, 1e-4, 1e-5, 1.0)],
        "x" * 200: [Point(1, 3.0, 2.0, 4.0), Point(4096, 9e4, 8e4, 1e5)],
    }
    picture = ET.fromstring(curve_svg(curves, "a <title>", "on & on"))
    inside = [float(text.get("x", 0)) for text in picture.iter() if text.tag.endswith("text")]
    assert min(inside) >= 0
    assert max(inside) <= 720
