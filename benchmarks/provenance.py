"""When figures were recorded, and whether the code they speak of has changed since.

A figure's commit is the one in which the row's own part of the results file first had its present
value. The code has changed if a file of the row's rooms that was there in that commit is gone or
computes something else now; comments, docstrings and new files do not count. Changes that are not
committed yet count already, and figures that are not committed count as new, so that committing
changes nothing on the page.
"""

import ast
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Origin:
    """Where figures come from: a commit (empty: not committed yet) and its day."""

    commit: str
    date: str


class History:
    """What git knows of a folder; ``missing`` says why it knows nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.missing = self._why_not()
        self._blob = cache(self._read_blob)
        self._code = cache(code)

    def origin(self, file: str, pick: Callable[[Any], Any]) -> Origin | None:
        """The commit that brought the present figures; None where there is no history."""
        path = self.root / file
        if self.missing or not path.exists():
            return None
        now = pick(json.loads(path.read_text(encoding="utf-8")))
        found = Origin("", datetime.now(UTC).strftime("%Y-%m-%d"))
        for commit, date in self._commits(file):
            text = self._blob(commit, file)
            if text is None or pick(json.loads(text)) != now:
                break
            found = Origin(commit, date)
        return found

    def changed(self, origin: Origin, paths: Sequence[str]) -> list[str]:
        """Files below the paths that compute something else than when the figures were made."""
        if not origin.commit:
            return []
        listed = self._git("diff", "--name-only", "--no-renames", origin.commit, "--", *paths)
        return [file for file in listed.splitlines() if self._differs(origin.commit, file)]

    def _differs(self, commit: str, file: str) -> bool:
        before = self._blob(commit, file)
        if before is None:
            return False  # it is new: it changes nothing until an older file uses it
        path = self.root / file
        if not path.exists() or not file.endswith(".py"):
            return True
        return self._code(before) != self._code(path.read_text(encoding="utf-8"))

    def _commits(self, file: str) -> list[tuple[str, str]]:
        """Those that touched a file, newest first, with their day in UTC."""
        days = "--date=format-local:%Y-%m-%d"
        listed = self._git("log", "--format=%H %ad", days, "--", file)
        return [(line.split()[0], line.split()[1]) for line in listed.splitlines()]

    def _read_blob(self, commit: str, file: str) -> str | None:
        done = self._run("show", f"{commit}:{file}")
        return done.stdout if done.returncode == 0 else None

    def _why_not(self) -> str:
        try:
            top = self._run("rev-parse", "--show-toplevel")
        except FileNotFoundError:
            return "git is not installed here"
        if top.returncode or Path(top.stdout.strip()).resolve() != self.root:
            return "this folder is not a clone"
        if self._git("rev-parse", "--is-shallow-repository").strip() == "true":
            return "this clone is shallow"
        return ""

    def _git(self, *words: str) -> str:
        done = self._run(*words)
        if done.returncode:
            raise RuntimeError(f"git {' '.join(words)} failed: {done.stderr.strip()}")
        return done.stdout

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", "-C", str(self.root), *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
        )


def code(text: str) -> str:
    """What a file computes: its syntax tree without docstrings, comments and places."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return ast.dump(tree)
