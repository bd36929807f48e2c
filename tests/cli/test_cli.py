"""The command line as a user meets it, in a process of its own."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess

from formwright.arch import arch_id, parse, to_json
from formwright.arch.style import WIKITEXT_FRAME


def run(*words: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "formwright.cli.main", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": str(columns)},
        check=False,
    )


def result(*words: str) -> Any:
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def zoo() -> dict[str, Any]:
    return {row["name"]: row for row in result("zoo")}


def test_the_zoo_has_the_published_integers(zoo: dict[str, Any]) -> None:
    wanted = {
        "transformer-xl-base": 191_950_298,
        "sandwich-base": 191_950_298,
        "par-base": 199_840_218,
        "par-table1-f32": 204_574_170,
        "transformer-xl-large": 285_167_482,
        "transformer-xl-24b": 41_055_436,
        "par-24b": 46_578_380,
        "bert-base": 109_482_240,
        "minibert": 33_221_376,
        "minilm-l6-h384": 22_713_216,
        "smollm2-135m": 134_515_008,
        "stories15m": 15_191_712,
    }
    assert {name: zoo[name]["params"] for name in wanted} == wanted
    keys = {"name", "system", "params", "published_params", "notation", "id"}
    assert all(keys <= set(row) for row in zoo.values())


def test_describe_gives_a_string_the_id_of_the_zoo_entry(zoo: dict[str, Any]) -> None:
    found = result("describe", "(sfff)x6(f)x8")
    assert found["id"] == zoo["par-base"]["id"]
    assert found["params"]["total"] == 199_840_218
    assert found["flops"] == sum(part["flops"] for part in found["parts"])
    assert found["activation_bytes"] == sum(p["activation_bytes"] for p in found["parts"])
    assert result("describe", found["notation"]) == found


def test_counts_follow_batch_and_length() -> None:
    small = result("describe", "gpt2-small", "--length", "10")
    large = result("describe", "gpt2-small", "--length", "10", "--batch", "3")
    assert large["flops"] == 3 * small["flops"]
    assert large["params"] == small["params"]


def test_describe_reads_a_file_and_draws(tmp_path: Path) -> None:
    arch = parse("(sf)x3 in llama(64)").bind(WIKITEXT_FRAME)
    (tmp_path / "mine.json").write_text(to_json(arch))
    drawing = tmp_path / "mine.svg"
    done = run("describe", str(tmp_path / "mine.json"), "--svg", str(drawing))
    assert done.returncode == 0, done.stderr
    assert arch_id(arch) in done.stdout
    assert ET.fromstring(drawing.read_text()).tag.endswith("svg")


@pytest.mark.parametrize("words", [("zoo",), ("describe", "par-base"), ("describe", "bert-base")])
def test_nothing_but_the_notation_is_wider_than_the_terminal(words: tuple[str, ...]) -> None:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("notation")]
    assert max(len(line) for line in lines) <= 80
    assert "\x1b" not in done.stdout  # no colour when piped


def test_diff_names_what_changed() -> None:
    done = run("diff", "(sf)x2 in gpt2(64)", "(sf)x2 in gpt2(64, heads=4)")
    assert done.stdout.splitlines() == [
        "layers[0].inner.heads: 2 -> 4",
        "layers[2].inner.heads: 2 -> 4",
    ]
    assert run("diff", "par-base", "(sfff)x6(f)x8").stdout == "The two are equal.\n"
    assert result("diff", "par-base", "sandwich-base")[0]["path"].startswith("layers")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("describe", "(sff"), "never closed"),
        (("describe", "(sq)x3"), "'q' is not a layer here"),
        (("describe", "par-bas"), "Did you mean 'par-base'"),
        (("describe", "missing.json"), "cannot be read: No such file"),
        (("describe", "(sf)x2", "--length", "0"), "at least 1"),
        (("describe", "(sf)x2", "--batch", "x"), "--batch"),
        (("describe", "(sf)x2", "--svg", "no/such/folder/a.svg"), "cannot be written"),
        (("describe",), "Missing argument"),
        (("describe", "(sf)x2", "--lenght", "3"), "No such option"),
        (("diff", "(sf)x2"), "Missing argument"),
        (("zo",), "No such command"),
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


def test_a_wrong_string_has_a_caret_under_the_column() -> None:
    lines = run("describe", "(sq)x3").stderr.splitlines()
    assert lines[1:] == ["  (sq)x3", "    ^"]


def test_a_file_that_is_no_architecture_is_refused(tmp_path: Path) -> None:
    for name, content in {"a.json": b"\xff\xfe", "b.json": b"{}", "c.json": b"[" * 9999}.items():
        (tmp_path / name).write_bytes(content)
        done = run("describe", str(tmp_path / name))
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
    (tmp_path / "d.json").mkdir()
    assert run("describe", str(tmp_path / "d.json")).returncode == 2


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m formwright.cli.main zoo --json | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""


def test_ops_lists_every_operator_with_paper_and_cost() -> None:
    rows = {row["name"]: row for row in result("ops")}
    assert {"name", "kind", "paper", "complexity", "params"} <= set(rows["bigbird"])
    nine = "bigbird linear_transformer linformer local longformer performer reformer sparse"
    assert all(rows[name]["kind"] == "attention kind" for name in [*nine.split(), "synthesizer"])
    assert rows["local"]["params"] == {"block": 50, "lra": False}
    for name in ("synthesizer", "sparse", "reformer"):
        assert "n^2" in rows[name]["complexity"]
    for name in ("formula", "program", "cell", "connected"):
        assert rows[name]["paper"].startswith("https://arxiv.org/abs/"), name
    lines = run("ops").stdout.splitlines()
    assert max(len(line) for line in lines) <= 80


def test_help_and_version() -> None:
    assert "describe" in run("--help").stdout
    assert run("--version").stdout.startswith("formwright 0.")
    for verb in ("zoo", "describe", "diff", "ops", "train", "eval", "tasks"):
        assert run(verb, "--help").returncode == 0


def test_the_folder_of_a_model_stands_for_its_architecture(
    in_process: InProcess, tmp_path: Path
) -> None:
    from formwright.model import build, save_model

    arch = parse("(sf)x2 in bert(16, heads=2) for frame(9, 8, mlm)")
    save_model(build(arch), tmp_path / "ours")
    done = in_process("describe", str(tmp_path / "ours"), "--json")
    assert json.loads(done.stdout)["id"] == arch_id(arch)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "config.json").write_text('{"model_type": "clip"}')
    refused = in_process("describe", str(theirs))
    assert refused.returncode == 2
    assert "'clip' cannot be read; bert, roberta" in refused.stderr


def test_a_long_string_of_layers_is_no_folder(in_process: InProcess) -> None:
    assert in_process("describe", "sf" * 300).returncode == 0  # longer than a file's name may be


def test_sentences_are_wrapped_and_paths_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    from formwright.cli.output import wrapped

    monkeypatch.setenv("COLUMNS", "40")
    path = "/a-long/" + "folder-" * 8
    lines = wrapped(f"What was found is faster than all that was tried: {path}").splitlines()
    assert max(len(line) for line in lines if path not in line) <= 40
    assert any(path in line for line in lines)
