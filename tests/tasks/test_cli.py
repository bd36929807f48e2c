"""``formwright tasks`` as a user meets it, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


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
