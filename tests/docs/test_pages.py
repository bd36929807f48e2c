"""What the pages say is so: their code runs, their commands exist, and every page is found."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, SMALL, Block, blocks, check_command, check_data
from tests.docs.driver import run_page

ALL = [block for page in PAGES for block in blocks(page)]
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def links(page: Path) -> set[Path]:
    """Files of the project that a page leads to."""
    found = (match[1] for match in _LINK.finditer(page.read_text(encoding="utf-8")))
    return {(page.parent / link).resolve() for link in found if "://" not in link}


def test_every_block_runs_to_its_end(tmp_path: Path) -> None:
    pages = [str(page) for page in PAGES if any(block.how == "run" for block in blocks(page))]
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.driver", str(tmp_path), *pages],
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80",
             "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wrong = [text for text in json.loads(done.stdout).values() if text]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.name)
def test_every_block_is_run_or_checked(block: Block) -> None:
    if block.language == "console":
        assert block.how in ("run", "check"), "say above it <!-- run --> or <!-- check -->"
        assert block.commands(), "a shell block has lines that begin with $"
        for words in block.commands():
            check_command(words)
        assert block.code
    elif block.language == "python":
        assert block.how == "run", "Python is always run"
    else:
        assert "$ formwright" not in block.text, "a shell block is called console"
        check_data(block)


def test_options_that_do_not_exist_are_noticed() -> None:
    check_command(
        ["formwright", "search", "--task", "classify:reviews.csv", *SMALL["console"].split()]
    )
    check_command(["formwright", "tasks", "show", "classify"])
    check_command(["make", "demo"])
    for words in (
        ["formwright", "search", "--fast"],
        ["formwright", "seek"],
        ["formwright", "export", "runs/a"],
        ["formwright", "search", "--workers", "many"],
        ["make", "tea"],
        ["python", "benchmarks/lts.py", "--fast"],
        ["pip", "install", "formwright[everything]"],
        ["curl", "example.org"],
    ):
        with pytest.raises(BaseException):  # noqa: B017, PT011  # the parser's own, or ours
            check_command(words)


def test_code_that_fails_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    page = tmp_path / "page.md"

    def said(text: str, folder: str) -> str:
        page.write_text(text, encoding="utf-8")
        return run_page(page, tmp_path / folder)

    one = "```python\nx = len(__import__('os').listdir('.'))\n```\n"
    other = "```python\nx.miss()\n```\n"
    assert said(one, "a") == ""
    assert re.search(r"page.md:4\n.*line 5, in <module>.*has no attribute 'miss'",
                     said(one + other, "b"), re.S)  # fmt: skip
    assert "ended with code 2" in said(
        "<!-- run -->\n```console\n$ formwright describe nothing-such\n```\n", "c"
    )
    swapped = "<!-- run: zoo => tea -->\n```console\n$ formwright targets\n```\n"
    assert "'zoo', which is to be replaced, is not there" in said(swapped, "d")
    page.write_text("```console\n$ formwright zoo\n```\n", encoding="utf-8")
    assert [block.how for block in blocks(page)] == [""], "a comment must say what is done"


def test_every_link_leads_to_a_file() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md"]:
        for target in links(page):
            assert target.exists(), f"{page.relative_to(ROOT)} leads to {target}"


def test_every_page_is_two_clicks_from_the_readme() -> None:
    first = links(ROOT / "README.md")
    second = {page for link in first if link.suffix == ".md" for page in links(link)}
    reached = first | second
    missing = [str(page.relative_to(ROOT)) for page in PAGES[1:] if page.resolve() not in reached]
    assert not missing
    assert (ROOT / "docs" / "tour.ipynb").resolve() in reached


def test_pages_do_not_name_paths_of_a_machine() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(work|home|root|Users)/", page.read_text("utf-8")), page


def test_the_notebook_runs_from_top_to_bottom(tmp_path: Path) -> None:
    notebook = json.loads((ROOT / "docs" / "tour.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 8
    for cell in notebook["cells"]:
        assert cell.get("outputs", []) == [], "it is kept without outputs"
    script = tmp_path / "tour.py"
    script.write_text("\n\n".join(cells), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
