"""What can be asked for by name is listed, offered by shells, and named rightly in messages."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli_helpers import InProcess

import formwright
from formwright.cli import offers
from formwright.cli.listing import setting_keys
from formwright.cli.main import app
from formwright.recipes.recipe import RECIPES

SOURCE = Path(formwright.__file__).parent


@pytest.mark.parametrize("kind", [kind for kind in offers.KINDS if kind != "settings"])
def test_every_kind_is_listed_with_a_line_about_each(in_process: InProcess, kind: str) -> None:
    done = in_process("list", kind, "--json")
    assert done.returncode == 0
    rows = json.loads(done.stdout)
    assert len(rows) >= 2
    assert all(row["name"] and row["what it is"] for row in rows)


def test_lists_fit_eighty_columns(in_process: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for words in ((), ("strategies",), ("recipes",), ("objectives",), ("settings", "par")):
        done = in_process("list", *words)
        assert done.returncode == 0
        assert max(map(len, done.stdout.splitlines())) <= 80


def test_unknown_kinds_and_names_get_the_nearest(in_process: InProcess) -> None:
    assert "Did you mean 'strategies'?" in in_process("list", "strategys").stderr
    assert "Did you mean 'par'?" in in_process("list", "settings", "parr").stderr
    assert in_process("list", "spaces", "par").returncode == 2


@pytest.mark.parametrize("name", ["par", "lts", "fft", "evolved", "usual", "nasbert"])
def test_every_setting_that_is_listed_can_be_set(name: str) -> None:
    made = RECIPES.get(name).make("search" if name == "usual" else "small")
    listed = setting_keys(name)
    assert len(listed) > 5
    for key in listed:
        value = key.value
        if isinstance(value, bool | int | float | str) or value is None:
            changed = made.with_setting(f"{key.path}={value}")
            assert changed.changed[-1] == f"{key.path}={value}"


def test_what_is_written_down_for_shells_is_what_there_is() -> None:
    assert offers.known() == offers.found(), (
        "run `python -m formwright.cli.offers` to write src/formwright/cli/known.json anew"
    )


# --- shells -----------------------------------------------------------------------------


def offered(*words: str) -> list[str]:
    """What bash is offered for the last word, by a fresh interpreter that must not load torch."""
    program = (
        "import sys\n"
        "from formwright.cli.main import app\n"
        "try:\n    app(prog_name='formwright')\n"
        "finally:\n    sys.stderr.write('TORCH' if 'torch' in sys.modules else '')\n"
    )
    line = ["formwright", *words]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            "_FORMWRIGHT_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(line),
            "COMP_CWORD": str(len(line) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "TORCH" not in done.stderr, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("search", "--strategy", "evo"), "evolution"),
        (("search", "--space", "op"), "open"),
        (("search", "--task", "clas"), "classify:"),
        (("search", "pa"), "par-bert"),
        (("search", "--estimator", "sy"), "synflow"),
        (("search", "--policy", "gu"), "gumbel"),
        (("search", "par", "--set", "search.st"), "search.steps="),
        (("train", "sf", "--set", "lr"), "lr="),
        (("search", "--log", "ten"), "tensorboard"),
        (("list", "set"), "settings"),
    ],
)
def test_shells_are_offered_values_at_once(words: tuple[str, ...], expected: str) -> None:
    assert expected in offered(*words)


# --- advice -----------------------------------------------------------------------------


def options_of(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)


def sentences(path: Path) -> Iterator[str]:
    """Every string of a file that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kept = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in kept:
            yield node.value


def test_messages_name_options_that_exist() -> None:
    known = {*options_of(typer.main.get_command(app)), "--help"}
    written = {
        "memory.py": {"--many"},  # of the process that measures
    }
    strangers = []
    for path in sorted(SOURCE.rglob("*.py")):
        for text in sentences(path):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", text):
                allowed = written.get(path.name, set())
                if option not in known and option not in allowed:
                    strangers.append(f"{path.relative_to(SOURCE)}: {option} in {text[:60]!r}")
    assert strangers == []


def test_the_zoo_says_why_counts_differ(in_process: InProcess) -> None:
    printed = " ".join(in_process("zoo").stdout.split())
    assert "NAS-BERT: The published size is a nominal budget" in printed
    assert "AutoDistil: The published count follows the paper's formula" in printed
    assert "All others are within 1.5%" in printed
