"""Code blocks of pages, and what is done with each.

A comment in front of a block says it, and a shell block without one is refused:

    <!-- run -->                     run it as it stands
    <!-- run: OLD => NEW; ... -->    run it with texts replaced, such as a budget
    <!-- run small: OLD -->          run it with OLD replaced by options for a tiny search
    <!-- check -->                   too dear to run: its commands and options must exist

Python blocks are run even without a comment. Blocks of a page run in order, in one namespace and
one folder, so that a page can go on from what it has made.
"""

import json
import os
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SMALL = {
    "console": "--trials 2 --steps 2 --cost flops --workers 1 --width 32 --set batch_tokens=128 "
    "--set score_batches=1",
    "python": "budget=None, trials=2, estimator='width', cost='flops'",
}
_MARK = re.compile(r"<!-- (run small|run|check)(?:: (.*?))? -->")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, and what its comment asks for."""

    page: Path
    line: int
    language: str
    how: str
    changes: tuple[tuple[str, str], ...]
    text: str

    @property
    def name(self) -> str:
        """Where to look when it fails."""
        return f"{os.path.relpath(self.page, ROOT)}:{self.line}"

    @property
    def code(self) -> str:
        """What is run: the text with what the comment replaces."""
        text = self.text
        for old, new in self.changes:
            assert old in text, f"{self.name}: {old!r}, which is to be replaced, is not there"
            text = text.replace(old, new)
        return text

    def commands(self, *, as_run: bool = False) -> list[list[str]]:
        """The words of each command of a shell block."""
        text = self.code if as_run else self.text
        lines = text.replace("\\\n", " ").splitlines()
        return [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    start = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
            continue
        how, changes = _asked(lines[start - 1] if start else "", lines[start][3:].strip())
        text = "\n".join(lines[start + 1 : number]) + "\n"
        language = lines[start][3:].strip()
        found.append(Block(page, start + 1, language, how, changes, text))
        start = None
    assert start is None, f"{page}: a block is not closed"
    return found


def _asked(comment: str, language: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    match = _MARK.fullmatch(comment.strip())
    if match is None:
        return ("run" if language == "python" else ""), ()
    how, rest = match[1], match[2] or ""
    if how == "run small":
        return "run", ((rest, SMALL[language]),)
    pairs = [part.split(" => ") for part in rest.split("; ") if part]
    return how, tuple((old, new) for old, new in pairs)


# --- commands that are only checked -----------------------------------------------------


def check_command(words: list[str]) -> None:
    """Raise unless a command exists and takes these options."""
    tool, rest = words[0], words[1:]
    known = {
        "formwright": _check_own,
        "make": _check_make,
        "python": _check_script,
        "pip": _check_pip,
    }
    assert tool in known, f"pages may not use {tool!r}; see check_command"
    known[tool](rest)


def _check_own(words: list[str]) -> None:
    import typer

    from formwright.cli.main import app

    command: Any = typer.main.get_command(app)
    context = command.make_context("formwright", list(words), resilient_parsing=True)
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, list(words))
        assert command is not None, f"formwright has no command {name!r}"
        if not hasattr(command, "resolve_command"):
            command.make_context(name, list(words), parent=context)  # parses, and runs nothing


def _check_make(words: list[str]) -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        assert "=" in word or re.search(rf"^{re.escape(word)}:", text, re.M), f"make {word}"


def _check_script(words: list[str]) -> None:
    if words[0] == "run.py":  # what an export writes, with texts as its arguments
        return
    path = ROOT / words[0]
    assert path.exists(), f"{words[0]} is not there"
    source = path.read_text(encoding="utf-8")
    if "harness import" in source:
        source += (ROOT / "benchmarks" / "harness.py").read_text(encoding="utf-8")
    for word in words[1:]:
        assert not word.startswith("--") or f'"{word}"' in source, f"{words[0]} takes no {word}"


def _check_pip(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in words[1:]:
        if match := re.fullmatch(r"(?:-e )?(?:formwright|\.)\[(.*)\]", word):
            extras = set(match[1].split(","))
            assert extras <= project["optional-dependencies"].keys(), word


def check_data(block: Block) -> None:
    """Files that a page shows must be what they say."""
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "toml":
        tomllib.loads(block.text)
