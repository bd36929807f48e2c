"""The folder of a run: what was asked for, who works in it, what happened, what came out.

run.json       architecture, task and configuration: what the same command must agree with
log.jsonl      one line per look: step, loss, rate, scores
checkpoint-*/  see checkpoint.py
model/         the trained model, once the run has ended
result.json    the result, written last
.lock          held by the process that works here
"""

import json
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, from_json, to_json
from formwright.errors import InputError, StorageError
from formwright.files import write_atomically
from formwright.locks import Lock
from formwright.train.config import TrainConfig


class RunFolder:
    """One folder, used by one process at a time.

    Opening it again with the same architecture, task and numbers continues the run; with others
    it is refused, so that nothing is overwritten by mistake.
    """

    def __init__(self, path: Path, arch: Architecture, task: str, config: TrainConfig) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(path)
        except OSError as error:
            raise StorageError(f"{path} cannot be used: {error.strerror}.") from None
        self._agree({"architecture": to_json(arch), "task": task, "config": config.to_data()})

    def close(self) -> None:
        """Let another process have the folder."""
        self._lock.close()

    def trim_log(self, step: int) -> None:
        """Forget lines after ``step``: a resumed run writes them again."""
        path = self.path / "log.jsonl"
        if not path.exists():
            return
        kept = [line for line in path.read_text().splitlines() if _step_of(line) <= step]
        _write(path, "".join(f"{line}\n" for line in kept))

    def log(self, line: dict[str, Any]) -> None:
        """Add one line to the log."""
        with open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result; its presence means that the run has ended."""
        _write(self.path / "result.json", json.dumps(result, indent=1))

    def result(self) -> dict[str, Any] | None:
        """The result of a run that has ended."""
        path = self.path / "result.json"
        return json.loads(path.read_text()) if path.exists() else None

    def _agree(self, asked: dict[str, Any]) -> None:
        path = self.path / "run.json"
        if not path.exists():
            _write(path, json.dumps(asked, indent=1))
            return
        stored = read_run(self.path)
        for name, value in asked.items():
            before = stored.get(name)
            if before == json.loads(json.dumps(value)):
                continue
            what = name
            if isinstance(value, dict) and isinstance(before, dict):
                changed = [k for k in value if json.loads(json.dumps(value[k])) != before.get(k)]
                what = ", ".join(f"{k} ({before.get(k)} before, {value[k]} now)" for k in changed)
            self._lock.close()
            raise InputError(
                f"{self.path} holds another run: it differs in {what}. "
                "Choose another --out, or repeat the command that began it."
            )


def read_run(path: Path) -> dict[str, Any]:
    """What a run folder was begun with."""
    try:
        return json.loads((path / "run.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path} holds no run: run.json is missing.") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{path / 'run.json'} cannot be read: {error}.") from None


def run_architecture(path: Path) -> Architecture:
    """The architecture a run trains."""
    return from_json(read_run(path)["architecture"])


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
