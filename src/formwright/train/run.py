"""The folder of a run: what was asked for, who works in it, what happened, what came out.

run.json       architecture, task and configuration: what the same command must agree with
log.jsonl      one line per look: step, loss, rate, scores
gates.jsonl    of searches: see strategy.gradient.search
checkpoint-*/  see checkpoint.py
model/         the trained model, once the run has ended
result.json    the result, written last
.lock          held by the process that works here
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from formwright.arch import Architecture, to_json
from formwright.errors import InputError, StorageError
from formwright.files import write_atomically
from formwright.train.checkpoint import Checkpoint, write_checkpoint
from formwright.train.config import TrainConfig


class RunFolder:
    """One folder, used by one process at a time.

    Opening it again with the same architecture, task and numbers continues the run; with others
    it is refused, so that nothing is overwritten by mistake. Of several processes that train
    together one leads; the others only read.
    """

    def __init__(
        self, path: Path, arch: Architecture, task: str, config: TrainConfig, *, leads: bool = True
    ) -> None:
        self.path, self.leads = path, leads
        if not leads:
            return
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked()
        except OSError as error:
            raise StorageError(f"{path} cannot be used: {error.strerror}.") from None
        asked = {"architecture": to_json(arch), "task": task, "config": config.to_data()}
        self.agree("run.json", asked)

    def close(self) -> None:
        """Let another process have the folder."""
        if self.leads:
            self._lock.close()

    def trim_logs(self, step: int) -> None:
        """Forget lines after ``step``: a resumed run writes them again."""
        for path in (self.path / "log.jsonl", self.path / "gates.jsonl"):
            if self.leads and path.exists():
                lines = path.read_text(encoding="utf-8").splitlines()
                _write(path, "".join(f"{line}\n" for line in lines if _step_of(line) <= step))

    def log(self, *lines: dict[str, Any], name: str = "log.jsonl") -> None:
        """Add lines to a log."""
        if self.leads:
            with open(self.path / name, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint."""
        if self.leads:
            write_checkpoint(self.path, checkpoint)

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result; its presence means that the run has ended."""
        if self.leads:
            _write(self.path / "result.json", json.dumps(result, indent=1))

    def result(self) -> dict[str, Any] | None:
        """The result of a run that has ended."""
        path = self.path / "result.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _locked(self) -> IO[str]:
        file = open(self.path / ".lock", "a+", encoding="utf-8")  # noqa: SIM115  # held open
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise StorageError(
                f"{self.path} is in use by {holder}. Wait for it, or choose another folder."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()} since {time.ctime()}")
        file.flush()
        return file

    def agree(self, name: str, asked: dict[str, Any]) -> None:
        """Keep what was asked for in a file; refuse to go on where it says something else."""
        path = self.path / name
        if not self.leads:
            return
        if not path.exists():
            _write(path, json.dumps(asked, indent=1))
        changed = [*_changes(path.stem, _read(path), json.loads(json.dumps(asked)))]
        if changed:
            self.close()
            raise InputError(
                f"{self.path} holds another {path.stem}: it differs in {', '.join(changed)}. "
                "Choose another --out, or repeat the command that began it."
            )


def read_run(path: Path) -> dict[str, Any]:
    """What a run folder was begun with."""
    return _read(path / "run.json")


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path.parent} holds no run: {path.name} is missing.") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{path} cannot be read: {error}.") from None


def _changes(name: str, before: Any, now: Any) -> Iterator[str]:
    """What differs, in words; of long values only their name."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            yield from _changes(key, before.get(key), now.get(key))
    elif before != now:
        short = len(f"{before}{now}") < 80
        yield f"{name} ({before} before, {now} now)" if short else name


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error


def _step_of(line: str) -> int:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):  # a line torn by a crash
        return 2**62
