"""Short forms of benchmarks, each in a process of its own, under a limit of time."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import VARIABLE

from claims.page import told_of
from claims.row import WORDS, Row
from claims.shape import Misfit

BENCHMARKS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Setting:
    """Where data, a checkpoint and peers are, where results go, and how many seconds there are."""

    data: Path | None
    minilm: Path | None
    work: Path
    seconds: float
    peers: Path | None = None  # environments, each called as its peer

    @property
    def results(self) -> Path:
        """The folder of the results of short runs."""
        return self.work / "results"

    def words(self, row: Row) -> list[str] | None:
        """The arguments of a row's short form; None where its data is not given."""
        assert row.short is not None
        given = {"data": self.data, "minilm": self.minilm, "peers": self.peers}
        if any(f"{{{name}}}" in row.short and path is None for name, path in given.items()):
            return None
        paths = {name: path and path.absolute() for name, path in given.items()}
        return shlex.split(row.short.format(**paths, work=self.work.resolve()))


def run_rows(rows: Sequence[Row], setting: Setting) -> int:
    """Run what the rows need, each command once, and say what they show; how many failed."""
    setting.results.mkdir(parents=True, exist_ok=True)
    left, failed = setting.seconds, 0
    done: dict[tuple[str, ...], str] = {}
    for row in sorted(rows, key=lambda row: row.minutes):  # what is cut short is the dearest
        if row.short is None:
            print(f"{row.name}: has no short form; in full: {row.command or 'no benchmark yet'}")
            continue
        given = setting.words(row)
        if given is None:
            print(f"{row.name}: passed over, its data is not given (--data, --minilm, --peers)")
            continue
        key = (row.script, *given)
        if key not in done:
            limit = min(left, max(300.0, 240.0 * row.minutes))
            if limit <= 0:
                print(f"{row.name}: passed over, the time is up")
                continue
            began = time.monotonic()
            print(f"{row.name}: {row.script} {shlex.join(given)}", flush=True)
            done[key] = _run(row, given, setting, limit)
            left -= time.monotonic() - began
        wrong, words = bool(done[key]), done[key]
        if not wrong:
            wrong, words = _shown(row, setting)
        failed += wrong
        print(f"  {words}", flush=True)
    return failed


def _shown(row: Row, setting: Setting) -> tuple[bool, str]:
    """Whether what was measured cannot be read, and what it says."""
    try:
        told, _ = told_of(row, setting.results, None)
    except Misfit as error:
        return True, str(error)
    return told.verdict == "open", f"{WORDS[told.verdict]}: {told.found}"


def _run(row: Row, words: list[str], setting: Setting, limit: float) -> str:
    """Run one benchmark; why nothing came of it, or nothing."""
    log = setting.work / f"{row.script.removesuffix('.py')}.log"
    environment = {**os.environ, VARIABLE: str(setting.results.resolve())}
    with open(log, "ab") as out:
        process = subprocess.Popen(
            [sys.executable, str(BENCHMARKS / row.script), *words],
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,  # so that its own children end with it
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"stopped after {limit / 60:.0f} minutes; it would go on if run again ({log})"
    return f"ended with code {code}; see {log}" if code else ""
