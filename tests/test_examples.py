"""Every example runs to its end, and says a combination in at most fifteen lines of Python."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
OWN = ("own_objective", "own_space", "own_strategy", "own_task")
COMBINED = ("gumbel_on_attentions", "priced_orders", "proxy_in_surrogate")


def ran(path: Path, tmp_path: Path) -> str:
    """What an example printed."""
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "out")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    return done.stdout


def parts(path: Path) -> list[ast.stmt]:
    """What an example says besides its first words and what it imports."""
    return [
        node
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if not isinstance(node, ast.Import | ast.ImportFrom)
    ][1:]


@pytest.mark.parametrize("name", COMBINED)
def test_parts_of_different_systems_are_combined_in_a_few_lines(name: str, tmp_path: Path) -> None:
    path = EXAMPLES / f"{name}.py"
    ran(path, tmp_path)
    assert sum(map(lines_of, parts(path))) <= 15


@pytest.mark.parametrize("name", OWN)
def test_a_thing_of_ones_own_takes_ten_lines(name: str, tmp_path: Path) -> None:
    path = EXAMPLES / f"{name}.py"
    assert ran(path, tmp_path)
    own = [node for node in parts(path) if not isinstance(node, ast.If)]  # what uses it aside
    text = path.read_text(encoding="utf-8").splitlines()
    taken = [
        line
        for node in own
        for line in text[node.lineno - 1 : node.end_lineno]
        if line.strip() and not line.strip().startswith('"""')
    ]
    assert len(taken) <= 10


def lines_of(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def test_every_example_is_tested() -> None:
    tested = {
        *COMBINED,
        *OWN,
        "par",
        "strings",
    }  # par.py needs minutes; strings.py: test_outside.py
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested
