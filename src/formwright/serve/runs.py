"""The searches below a folder, by name. Nothing in them is changed, not even brought up to date.

A name is only ever looked up among those that were found, never joined to a path, so that no
request can reach what lies elsewhere; links that lead out of the folder are passed over.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.errors import FormwrightError, StorageError
from formwright.locks import holder
from formwright.study import Study
from formwright.study.database import Outdated
from formwright.study.folder import record_path
from formwright.study.outcome import read_outcome
from formwright.study.store import Store

_DEEP = 3  # folders below the given one in which runs are looked for
_MOST = 500  # runs that are listed
_LARGEST = 50_000_000  # bytes of a model's task.json
_WATCHED = ("study.db", "study.db-wal", "outcome.json", "phases", "supernet", "best")
_TRACED = 40  # files of phases and traces that are looked at

State = tuple[Any, ...]


@dataclass(frozen=True)
class Run:
    """A search in a folder.

    Args:
        name: Its path below the folder that is served.
        folder: Where it is.
    """

    name: str
    folder: Path

    def state(self) -> State:
        """Changes whenever something in the run has; a few looks at the disk."""
        return (*_stamps(self.folder), holder(self.folder))

    def summary(self) -> dict[str, Any]:
        """What a list shows of it; ``remark`` where it cannot be read."""
        found: dict[str, Any] = {"name": self.name, "running": bool(holder(self.folder))}
        try:
            study = opened(self.folder)
            try:
                state, outcome = study.state, read_outcome(self.folder)
            finally:
                study.close()
        except FormwrightError as error:
            return {**found, "remark": str(error)}
        recipe = str(study.meta.get("recipe") or "")
        return {
            **found,
            "recipe": recipe,
            "task": str(study.meta.get("task") or ""),
            "done": state.done,
            "failed": state.failed,
            "open": state.running + state.waiting,
            "seconds": state.seconds,
            "headline": outcome.headline,
            "finished": bool(outcome.headline) and not found["running"],
        }

    def model(self) -> dict[str, Any] | None:
        """What the recommended model takes; None where there is none that reads texts."""
        place = self.folder / "best" / "task.json"
        try:
            if place.stat().st_size > _LARGEST:
                return None
            data = json.loads(place.read_bytes())
            kind = str(data["kind"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        two = bool(data.get("pair")) or kind in ("match", "span")
        return {"kind": kind, "two": two, "task": str(data.get("task", ""))}


class Runs:
    """The runs below a folder.

    Args:
        folder: Where they are; a run itself is served alone.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def all(self) -> list[Run]:
        """Those that are there now, the newest first."""
        found = list(self._found())
        found.sort(key=lambda run: -_changed(run.folder))
        return found[:_MOST]

    def get(self, name: str) -> Run | None:
        """The run of a name; None where there is none."""
        return next((run for run in self._found() if run.name == name), None)

    def _found(self) -> Iterator[Run]:
        if record_path(self.folder).is_file():
            yield Run(self.folder.name, self.folder)
            return
        yield from self._below(self.folder, 1)

    def _below(self, folder: Path, depth: int) -> Iterator[Run]:
        try:
            children = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        for child in children:
            path = Path(child.path)
            if child.name.startswith(".") or not self._inside(path):
                continue
            if record_path(path).is_file():
                yield Run(path.relative_to(self.folder).as_posix(), path)
            elif depth < _DEEP:
                yield from self._below(path, depth + 1)

    def _inside(self, path: Path) -> bool:
        """Whether it is a folder that lies below the one that is served, links followed."""
        try:
            return path.is_dir() and path.resolve().is_relative_to(self.folder)
        except OSError:
            return False


def opened(folder: Path) -> Study:
    """A study to look at; one of an earlier format is left as it is, and said."""
    try:
        Store(record_path(folder), readonly=True).close()
    except Outdated as error:
        raise StorageError(f"{error} Run `formwright show` on it once, then it is shown.") from None
    return Study.open(folder)


def _stamps(folder: Path) -> list[tuple[int, int]]:
    """When the files that a report is made from were last written, and how large they are."""
    places = [folder / name for name in _WATCHED]
    inside = (path for place in places[3:5] for path in _files(place))
    found = []
    for path in (*places, *inside):
        try:
            seen = path.stat()
        except OSError:
            found.append((0, 0))
        else:
            found.append((seen.st_mtime_ns, seen.st_size))
    return found


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:_TRACED]
    except OSError:
        return []


def _changed(folder: Path) -> float:
    """When the record was last written to."""
    return max((stamp for stamp, _ in _stamps(folder)[:2]), default=0) / 1e9
