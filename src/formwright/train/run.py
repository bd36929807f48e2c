"""The folder of a run: what was asked for, who works in it, what happened, what came out.

run.json       architecture, task and configuration: what the same command must agree with
log.jsonl      one line per look: step, loss, rate, scores
gates.jsonl    of searches: see strategy.gradient.search
checkpoint-*/  see checkpoint.py
model/         the trained model, once the run has ended
result.json    the result, written last
.lock          held by the process that works here
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, to_json
from formwright.errors import InputError, StorageError
from formwright.files import write_atomically
from formwright.locks import Lock
from formwright.train.checkpoint import Checkpoint, write_checkpoint
from formwright.train.config import TrainConfig

MODEL = "model"


def has_checkpoint(run: Path) -> bool:
    """Whether a run could go on from somewhere."""
    return any(run.glob("checkpoint-*"))


def tidy(run: Path) -> None:
    """Remove what an ended run no longer needs: its checkpoints, where its model is whole."""
    if (run / "result.json").exists() and (run / MODEL / "model.safetensors").exists():
        for spent in run.glob("checkpoint-*"):
            shutil.rmtree(spent, ignore_errors=True)


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
            self._lock = Lock(path)
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
        path = self.path / "log.jsonl"
        if self.leads and path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            _write(path, "".join(f"{line}\n" for line in lines if _step_of(line) <= step))

    def log(self, line: dict[str, Any]) -> None:
        """Add a line to the log."""
        if self.leads:
            with open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

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

    def agree(self, name: str, asked: dict[str, Any]) -> None:
        """Keep what was asked for in a file; refuse to go on where it says something else."""
        path = self.path / name
        if not self.leads:
            return
        if not path.exists():
            _write(path, json.dumps(asked, indent=1))
        before = _read(path)
        if "config" in before:  # numbers that were added since had their defaults before
            before["config"] = {**TrainConfig().to_data(), **before["config"]}
        changed = [
            *_changes(path.stem, json.loads(json.dumps(before)), json.loads(json.dumps(asked)))
        ]
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
