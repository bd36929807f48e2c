"""The harness keeps rows whole or not at all, and never measures twice."""

import json
import lzma
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
from harness import VARIABLE, Parts, Rows, arguments, results, spread, unpacked


def test_a_row_on_record_is_not_measured_again(tmp_path: Path) -> None:
    table, calls = Rows(tmp_path / "rows.json"), []

    def work() -> dict[str, float]:
        calls.append(1)
        return {"accuracy": 0.5}

    about = {"case": "a", "seed": 0}
    first = table.once(about, work)
    assert table.once(about, work) == first == {**about, "accuracy": 0.5}
    assert len(calls) == 1
    table.once({**about, "seed": 1}, work)
    assert [row["seed"] for row in table.read()] == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_a_row_whose_measurement_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    table = Rows(tmp_path / "rows.json")
    table.add({"case": "a"})
    before = table.path.read_bytes()

    def work() -> dict[str, float]:
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError, match="no power"):
        table.once({"case": "b"}, work)
    assert table.path.read_bytes() == before


def add_some(path: Path, name: str) -> None:
    for number in range(20):
        Rows(path).add({"by": name, "number": number})


def test_two_processes_lose_no_row_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    context = multiprocessing.get_context("fork")
    both = [context.Process(target=add_some, args=(path, name)) for name in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    rows = [(row["by"], row["number"]) for row in Rows(path).read()]
    assert sorted(rows) == [(name, number) for name in "ab" for number in range(20)]


def test_parts_replace_their_own_value_only(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts.json")
    parts.keep("a", {"x": 1})
    parts.keep("b", 2)
    parts.keep("a", 3)
    assert parts.read() == {"a": 3, "b": 2}
    parts.replace({"c": 4})
    assert json.loads(parts.path.read_text()) == {"c": 4}


def test_parts_are_changed_together_or_not_at_all(tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts.json")
    with parts.changing() as found:
        found.setdefault("a", {})["x"] = 1

    def spoil(found: dict[str, Any]) -> None:
        found["a"]["x"] = 2
        raise RuntimeError("no power")

    with pytest.raises(RuntimeError, match="no power"), parts.changing() as found:
        spoil(found)
    assert parts.read() == {"a": {"x": 1}}
    parts.keep("b", 2)  # nothing stays locked
    assert parts.read() == {"a": {"x": 1}, "b": 2}


def test_results_can_be_sent_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert results("mine").parts[-3:] == ("benchmarks", "results", "mine.json")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert results("mine") == tmp_path / "mine.json"
    Rows("mine").add({"a": 1})
    assert (tmp_path / "mine.json").exists()


def test_common_arguments_are_the_same_everywhere() -> None:
    parser = arguments("What it does.", seeds=3, data=False, only=["a", "b"])
    asked = parser.parse_args(["--seeds", "2", "--only", "b", "--data", "here"])
    assert (asked.seeds, asked.only, asked.data) == (2, ["b"], Path("here"))
    assert arguments("Nothing.").parse_args([]).__dict__ == {}
    with pytest.raises(SystemExit):
        parser.parse_args(["--seeds", "0"])
    with pytest.raises(SystemExit):
        arguments("x", data=True).parse_args([])


def test_packed_and_plain_files_are_the_same_text(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    out.mkdir()
    (data / "train.txt.xz").write_bytes(lzma.compress(b"packed"))
    (data / "valid.txt").write_bytes(b"plain")
    unpacked(data, out, "train.txt", "valid.txt")
    assert ((out / "train.txt").read_bytes(), (out / "valid.txt").read_bytes()) == (
        b"packed",
        b"plain",
    )


def test_spread_is_mean_and_standard_deviation() -> None:
    assert spread([1.0, 3.0]) == {"mean": 2.0, "sd": pytest.approx(2**0.5), "values": [1.0, 3.0]}
    assert spread([4.0])["sd"] == 0
