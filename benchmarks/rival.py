"""Another program in an interpreter of its own, asked for what it can do in lines of JSON.

    with Rival(python, "archai_side.py") as rival:
        value, seconds = rival.ask("count", layers=2)

Peers need other versions than we do, so each has an environment of its own (docs/evidence-data.md),
and a script in ``benchmarks/rivals`` calls its public interface there. Both sides take turns: while
one computes, the other waits. Seconds are of the processor, as the side that computes counts them.
"""

import json
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

RIVALS = Path(__file__).resolve().parent / "rivals"
_SAID = 2000  # characters of what a peer said last


class RivalError(RuntimeError):
    """A peer could not do what it was asked, in its own words."""


class Rival:
    """A peer at work, in a folder of its own that is gone at the end."""

    def __init__(self, python: Path, script: str | Path) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._log = open(Path(self._folder.name) / "said.log", "w+b")  # noqa: SIM115
        one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONNOUSERSITE": "1"}
        self._process = subprocess.Popen(
            [str(python.absolute()), str(RIVALS / script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=self._folder.name,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | one,
            text=True,
            encoding="utf-8",
        )

    def ask(self, verb: str, **given: Any) -> tuple[Any, float]:
        """What it answers, and the seconds of processor time that it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"verb": verb, **given}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RivalError(f"it ended with code {self._process.wait()}: {self.said()}")
        found = json.loads(line)
        if "error" in found:
            raise RivalError(found["error"])
        return found["value"], found["seconds"]

    def said(self) -> str:
        """The end of what it printed."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-_SAID:].strip()

    def close(self) -> None:
        """End it, and wait for it."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()
        self._folder.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
