"""Runs the blocks of pages in a process of its own, so that what they register stays there.

    python -m tests.docs.driver FOLDER PAGE ...

Each page gets a folder of its own with tiny data, and a fresh namespace. Prints JSON: page to what
went wrong, empty where nothing did.
"""

import contextlib
import inspect
import io
import json
import os
import sys
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

from tests.docs.blocks import Block, blocks, check_command

WORDS = {"good": ("good", "great", "lovely", "fine"), "bad": ("bad", "awful", "dull", "poor")}


def make_data(folder: Path) -> None:
    """The files that pages speak of: a table of texts with labels, and a text."""
    import argparse

    rng, rows = Random(0), ["text,label"]
    for number in range(60):
        label = ("good", "bad")[number % 2]
        first, second = rng.choices(WORDS[label], k=2)
        rows.append(f"film {number} was {first} and {second},{label}")
    (folder / "reviews.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (folder / "book.txt").write_text(inspect.getsource(argparse)[:30_000], encoding="utf-8")


def run_page(page: Path, folder: Path) -> str:
    """Run the blocks of a page in order; what went wrong."""
    folder.mkdir()
    make_data(folder)
    os.chdir(folder)
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                if block.language == "python":
                    exec(_compiled(block), namespace)
                elif block.how == "run":
                    for words in block.commands(as_run=True):
                        _command(words)
        except BaseException:
            return f"{block.name}\n{traceback.format_exc()}\n{out.getvalue()[-2000:]}"
    return ""


def _compiled(block: Block) -> Any:
    return compile("\n" * block.line + block.code, str(block.page), "exec")


def _command(words: list[str]) -> None:
    from formwright.cli.main import main

    check_command(words)
    if words[0] != "formwright":
        raise AssertionError(f"{words[0]} cannot be run by the tests; mark the block as checked")
    sys.argv = words
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise AssertionError(f"{' '.join(words)} ended with code {ended.code}") from None


def main() -> None:
    """Run every page that is named."""
    root = Path(sys.argv[1])
    found = {}
    for number, page in enumerate(sys.argv[2:]):
        began = time.process_time()
        found[page] = run_page(Path(page), root / str(number))
        print(f"{page}: {time.process_time() - began:.1f} s", file=sys.stderr)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
