"""Estimators that remember and that replay: no architecture is ever estimated twice."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from formwright.arch import arch_id
from formwright.arch.architecture import Architecture
from formwright.errors import FormwrightError, StorageError
from formwright.estimate.base import Estimator, Together, Work


class Cached(Estimator):
    """Another estimator whose values are kept, by architecture and stage, for every study.

    Args:
        inner: What is asked when the values are not known.
        path: A file of lines of JSON that survives the program; without one they are kept in
            memory only. A torn last line, from a crash, is passed over.
        by_seed: Whether another seed is another value. Every trial has a seed of its own, so that
            what one study has estimated is then of no use to others.
        name: What tells this estimator from others in the same file; its class and its fields
            when not given, or its class alone where it is not a dataclass.
    """

    def __init__(
        self,
        inner: Estimator,
        path: str | Path | None = None,
        *,
        by_seed: bool = False,
        name: str = "",
    ) -> None:
        self.inner, self.path = inner, Path(path) if path is not None else None
        self.by_seed = by_seed
        self.name = hashlib.sha256((name or _identity(inner)).encode()).hexdigest()[:12]
        self.known: dict[str, dict[str, float]] = {}
        if self.path is not None and self.path.exists():
            for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    record = json.loads(line)
                    self.known[record["key"]] = record["values"]
                except (json.JSONDecodeError, KeyError, TypeError):
                    continue

    def __call__(self, work: Work) -> Mapping[str, float]:
        trial = work.trial
        key = f"{self.name}/{_id_of(work.arch)}/{trial.rung}"
        if trial.steps is not None or trial.train_seconds is not None:
            key += f"/{trial.steps}/{trial.train_seconds}"
        if self.by_seed:
            key += f"/{work.seed}"
        if key not in self.known:
            self.known[key] = dict(self.inner(work))
            self._append({"key": key, "values": self.known[key]})
        return self.known[key]

    def _append(self, record: dict[str, Any]) -> None:
        if self.path is None:
            return
        try:
            with open(self.path, "a+b") as file:
                torn = False
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    torn = file.read(1) != b"\n"
                # one write, so that lines of several processes do not mix
                file.write(b"\n" * torn + json.dumps(record).encode() + b"\n")
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


def _identity(estimator: Any) -> str:
    """What an estimator is and everything it was made with, as far as it says so."""
    if isinstance(estimator, Together):
        return " + ".join(map(_identity, estimator.parts))
    if is_dataclass(estimator):
        return repr(estimator)
    return str(getattr(estimator, "__qualname__", type(estimator).__qualname__))
