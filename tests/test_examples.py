"""Every example runs to its end, and says a combination in at most fifteen lines of Python."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
COMBINED = ("gumbel_on_attentions", "priced_orders", "proxy_in_surrogate")


@pytest.mark.parametrize("name", COMBINED)
def test_parts_of_different_systems_are_combined_in_a_few_lines(name: str, tmp_path: Path) -> None:
    path = EXAMPLES / f"{name}.py"
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
    body = [node for node in ast.parse(path.read_text(encoding="utf-8")).body
            if not isinstance(node, ast.Import | ast.ImportFrom)][1:]  # fmt: skip
    assert sum(node.end_lineno - node.lineno + 1 for node in body) <= 15  # type: ignore[operator]


def test_every_example_is_tested() -> None:
    tested = {*COMBINED, "par", "strings"}  # par.py needs minutes; strings.py: test_outside.py
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested
