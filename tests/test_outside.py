"""Things of a user's own, in a file outside the project, work as the built-in ones do."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.test_registry import announce

FILE = Path(__file__).parents[1] / "examples" / "strings.py"
QUICK = ["--task", "stdlib?length=32", "--cost", "flops", "--steps", "2", "--set",
         "batch_tokens=128", "--set", "score_batches=1"]  # fmt: skip
OF_STRINGS = ["search", "--space", "strings", *QUICK]
COMMANDS = {
    "spaces": ["spaces"],
    "first": [*OF_STRINGS, "--trials", "6", "--out", "run", "--workers", "2", "--json"],
    "more": ["resume", "run", "--trials", "9", "--workers", "1", "--json"],
    "show": ["show", "run"],
    "report": ["report", "run"],
    "refused": [*OF_STRINGS, "--strategy", "surrogate", "--trials", "2", "--out", "no"],
    "climb": ["search", "--strategy", "climb", *QUICK, "--width", "32", "--trials", "4", "--out",
              "climbed", "--workers", "1", "--json"],
    "letters": ["search", "letters", "--preset", "smoke", "--out", "own", "--json"],
    "again": ["resume", "own", "--json"],
}  # fmt: skip
# All commands in one fresh interpreter, which takes long to start.
DRIVER = """
import contextlib, io, json, sys
from formwright.cli.main import main

if __name__ == "__main__":
    found = {}
    for name, words in json.load(sys.stdin).items():
        out, err, code = io.StringIO(), io.StringIO(), 0
        sys.argv = ["formwright", *words]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as ended:
                code = ended.code or 0
        found[name] = [code, out.getvalue(), err.getvalue()]
    json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example as an installed package announces it."""
    folder = tmp_path_factory.mktemp("outside")
    code = FILE.read_text(encoding="utf-8")
    lines = code.partition('"""')[2].partition('"""')[0].splitlines()
    points = [line.strip().replace("project.entry-points.", "").replace('"', "")
              for line in lines if line.startswith("    ")]  # fmt: skip
    announce(folder, "strings", code, "\n".join(points) + "\n")
    return folder


@pytest.fixture(scope="module")
def printed(home: Path) -> dict[str, Any]:
    """Exit code, output and errors of each command."""
    (home / "driver.py").write_text(DRIVER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "driver.py"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(home), *sys.path])},
        input=json.dumps(COMMANDS),
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def said(printed: dict[str, Any], name: str) -> Any:
    code, out, err = printed[name]
    assert code == 0, err
    return json.loads(out) if "--json" in COMMANDS[name] else out


def own(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Trials of the strategy and its control."""
    return [trial for trial in found["trials"] if trial["origin"] not in ("rival", "final")]


def test_a_space_of_strings_is_listed_searched_by_two_workers_and_resumed(
    printed: dict[str, Any],
) -> None:
    assert "strings" in said(printed, "spaces")
    first, more = said(printed, "first"), said(printed, "more")
    assert {trial["state"] for trial in first["trials"]} == {"done"}
    assert len(own(first)) == 6
    count = len(first["trials"])
    assert [t["notation"] for t in more["trials"][:count]] == [
        t["notation"] for t in first["trials"]
    ]
    assert len(own(more)) == 9
    assert "promoted" in {trial["origin"] for trial in more["trials"]}


def test_a_study_of_strings_is_shown_and_reported_with_a_section_of_ones_own(
    printed: dict[str, Any], home: Path
) -> None:
    assert f"{len(said(printed, 'more')['trials'])} trials done" in said(printed, "show")
    said(printed, "report")
    page = (home / "run" / "report.html").read_text(encoding="utf-8")
    assert "Letters that were tried" in page


def test_a_strategy_that_needs_more_than_strings_can_do_says_so(printed: dict[str, Any]) -> None:
    code, _, err = printed["refused"]
    assert code == 2
    assert "needs a space that is Encodable and Crossable, which 'strings' (Strings) is not" in err
    assert "use " in err
    assert "Traceback" not in err


def test_a_strategy_of_ones_own_searches_a_built_in_space(printed: dict[str, Any]) -> None:
    found = said(printed, "climb")
    changes = [trial for trial in own(found) if trial["origin"] != "control"][1:]
    assert {trial["origin"] for trial in changes} == {"mutation"}
    assert all(" -> " in trial["note"] for trial in changes), "the change in words"


def test_a_recipe_of_ones_own_runs_and_is_found_again(printed: dict[str, Any]) -> None:
    found, again = said(printed, "letters"), said(printed, "again")
    assert len(found["trials"]) == 10
    assert found["headline"]
    assert again["trials"] == found["trials"]
    assert again["headline"] == found["headline"]
