"""``formwright tasks`` as a user meets it, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "formwright.cli.main", "tasks", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def result(*words: str) -> Any:
    done = run(*words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_tasks_are_listed() -> None:
    names = [row["name"] for row in result("--json")]
    assert {"listops", "stdlib", "classify:PATH", "hf:NAME[/CONFIG]"} <= set(names)
    plain = run().stdout
    assert all(name.split(":")[0] in plain for name in names)


def test_a_task_is_shown_with_rows_labels_lengths_and_examples(data: Path) -> None:
    name = f"classify:{data}/reviews.csv?text=body&label=stars"
    told = result("show", name, "--json")
    assert sum(told["rows"].values()) == 120
    assert set(told["labels"]) == {"long", "short"}
    assert {"min", "mean", "max", "p95"} == set(told["lengths"])
    assert len(told["examples"]) == 3
    plain = run("show", name).stdout
    assert "90/5/5" in plain
    assert plain.count("example ") == 3
    assert told["examples"][0]["text"] in plain


def test_control_characters_of_the_data_do_not_reach_the_terminal(tmp_path: Path) -> None:
    rows = "".join(f"\x1b[31mred {n},{n % 2}\n" for n in range(20))
    (tmp_path / "f.csv").write_text("text,label\n" + rows)
    done = run("show", f"classify:{tmp_path}/f.csv")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "clasify:x.csv"), "Did you mean 'classify'?"),
        (("show", "classify:nothing.csv"), "nothing.csv does not exist"),
        (("show", "listops-tiny?depth=2"), "has no option 'depth'"),
    ],
)
def test_mistakes_end_with_one_sentence(words: tuple[str, ...], message: str) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "kind", ["classify", "match", "tag", "span", "translate", "lm", "mlm", "hf"]
)
def test_a_kind_says_what_it_takes_in_80_columns(
    kind: str, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = in_process("tasks", "show", kind)
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    told = json.loads(in_process("tasks", "show", kind, "--json").stdout)
    for part in ("formats", "metrics", "files"):
        assert all(name in done.stdout for name in told[part])
    assert all(f"  {option['name']}" in done.stdout for option in told["options"])
    flat = " ".join(done.stdout.split())
    assert all(option["about"] in flat for option in told["options"])
    assert all(name in flat for column in told["columns"] for name in column["usual"])
    assert told["splits"] in flat
    assert told["example"] in flat


def test_a_built_in_task_shows_its_data_and_its_options(in_process: InProcess) -> None:
    done = in_process("tasks", "show", "planted-far")
    assert done.returncode == 0
    assert "example 3" in done.stdout
    assert "offset=24" in done.stdout
    told = json.loads(in_process("tasks", "show", "planted-far", "--json").stdout)
    assert told["rows"]["train"] == 4000
    assert "offset" in [option["name"] for option in told["options"]]


def test_a_kind_without_a_path_points_at_its_guide(in_process: InProcess) -> None:
    done = in_process("tasks", "show", "classify?text=body")
    assert done.returncode == 2
    assert "`formwright tasks show classify` says what it takes" in done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("text,label\n", "has a header and no rows"),
        ("Kommentar;Klasse\ngut;1\n", "'Kommentar;Klasse'"),
        ("text;stuff\ngut;1\n", "there is no column 'label'"),
        ("text,label\na,x\nb,x\nc,x\n", "nothing to learn"),
        ("text,label\na, b,x\nc,y\n", "commas separate cells unless they stand in quotes"),
        ("text,label\na,x\nb,y\n", "2 rows are too few"),
        ("\0\1\2\n", "first line of f.csv"),
    ],
)
def test_bad_files_end_with_one_line_and_exit_code_2(
    content: str, says: str, tmp_path: Path, in_process: InProcess
) -> None:
    (tmp_path / "f.csv").write_text(content)
    done = in_process("tasks", "show", f"classify:{tmp_path}/f.csv")
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.strip().isprintable()


def test_what_should_be_known_is_said_where_a_run_begins(
    tmp_path: Path, in_process: InProcess
) -> None:
    rows = "".join(
        f"word {'more ' * (n % 7)},{'rare' if n % 40 == 1 else 'usual'}\n" for n in range(200)
    )
    (tmp_path / "f.csv").write_text("text,label\n" + rows)
    words = ("train", "(sf)x1", "--task", "classify:f.csv?length=4", "--width", "16")
    done = in_process(*words, "--steps", "1", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    flat = " ".join(done.stdout.split())
    assert "note: rows longer than 4 tokens are cut at the end" in flat
    assert "note: classes are uneven: 'usual'" in flat
    quiet = in_process(*words, "--steps", "1", "--out", "other", "--json", folder=tmp_path)
    assert json.loads(quiet.stdout)["metric"] == "accuracy"
