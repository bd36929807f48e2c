"""Estimators that remember and that replay: no architecture is ever estimated twice."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from formwright.arch import arch_id
from formwright.arch.architecture import Architecture
from formwright.errors import FormwrightError, StorageError
from formwright.estimate.base import Estimator, Work


class Cached(Estimator):
    """Another estimator whose values are kept, by architecture, stage and seed.

    Args:
        inner: What is asked when the values are not known.
        path: A file of lines of JSON that survives the program; without one they are kept in
            memory only. A torn last line, from a crash, is passed over.
    """

    def __init__(self, inner: Estimator, path: str | Path | None = None) -> None:
        self.inner, self.path = inner, Path(path) if path is not None else None
        self.known: dict[str, dict[str, float]] = {}
        if self.path is not None and self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                try:
                    record = json.loads(line)
                    self.known[record["key"]] = record["values"]
                except (json.JSONDecodeError, KeyError, TypeError):
                    continue

    def __call__(self, work: Work) -> Mapping[str, float]:
        key = f"{arch_id(work.arch)}/{work.trial.rung}/{work.seed}"
        if key not in self.known:
            self.known[key] = dict(self.inner(work))
            self._append({"key": key, "values": self.known[key]})
        return self.known[key]

    def _append(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise StorageError(f"{self.path} cannot be written: {error.strerror}.") from None


class Tabular(Estimator):
    """Replays a table of results that were measured before.

    Args:
        table: Key of a member to its values.
        key: What a member is called in the table; its architecture id when not given.
    """

    def __init__(
        self,
        table: Mapping[Any, Mapping[str, float]],
        key: Callable[[Any], Any] | None = None,
    ) -> None:
        self.table, self.key = table, key

    def __call__(self, work: Work) -> Mapping[str, float]:
        key = self.key(work.arch) if self.key is not None else _id_of(work.arch)
        if key not in self.table:
            raise FormwrightError(f"the table has no row for {key!r}.")
        return self.table[key]


def _id_of(member: Any) -> str:
    return arch_id(member) if isinstance(member, Architecture) else str(member)
