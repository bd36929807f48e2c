"""The examples of a task, split by split, and what is kept and told of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from formwright.tasks.cache import Ragged, Stored
from formwright.tasks.text import Tokenizer


@dataclass(frozen=True)
class Split:
    """The examples of one split.

    Args:
        columns: What the model reads, by its name in ``Model.forward``.
        targets: One value per example, or a row of them.
        firsts: Where two texts stand in one row: the tokens that belong to the first.
        texts: What the user wrote, or what measuring needs besides, such as references.
    """

    columns: dict[str, Ragged]
    targets: np.ndarray | Ragged
    firsts: np.ndarray | None = None
    texts: dict[str, Ragged] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @property
    def lengths(self) -> np.ndarray:
        """(rows, columns) tokens; two texts that are compared are filled up to the same length."""
        found = [column.lengths for column in self.columns.values()]
        if "other" in self.columns:
            found = [np.maximum(*found)] * 2
        return np.stack(found, axis=1)


@dataclass(frozen=True)
class Later:
    """A split that is made when it is needed; how many rows it will have is known before."""

    rows: int
    make: Callable[[], Split]

    def __len__(self) -> int:
        return self.rows


Lazy = Split | Later


@dataclass
class About:
    """What ``describe`` tells besides the data itself."""

    tokenizer: str = ""
    split: str = ""
    truncated: dict[str, int] = field(default_factory=dict)
    examples: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def generated() -> About:
    """What is said of data that nobody wrote."""
    return About(tokenizer="symbols", split="generated; each split from a seed of its own")


def stored_split(stored: Stored, name: str, columns: tuple[str, ...] = ("tokens",)) -> Split:
    """A split as ``Stored`` keeps it: ``train/tokens``, ``train/targets`` and so on."""
    targets: np.ndarray | Ragged
    if f"{name}/targets@" in stored.arrays:
        targets = stored.ragged(f"{name}/targets")
    else:
        targets = stored.arrays[f"{name}/targets"]
    texts = {
        key.removeprefix(f"{name}/text-"): stored.ragged(key)
        for key in stored.arrays
        if key.startswith(f"{name}/text-") and not key.endswith("@")
    }
    return Split(
        {column: stored.ragged(f"{name}/{column}") for column in columns},
        targets,
        stored.arrays.get(f"{name}/firsts"),
        texts,
    )


def with_notes(stored: Stored, notes: Iterable[str]) -> Stored:
    """Prepared data with notes on how its files were read, each once and before all others."""
    stored.meta["notes"] = [*dict.fromkeys(notes), *stored.meta["notes"]]
    return stored


def summary(
    tokenizer: Tokenizer,
    longest: int,
    truncated: Mapping[str, int],
    examples: list[dict[str, Any]],
    notes: Iterable[str] = (),
    **more: Any,
) -> dict[str, Any]:
    """What is kept beside prepared data; ``truncated`` has every split."""
    return {
        "vocab": tokenizer.vocab,
        "length": longest,
        "tokenizer": tokenizer.spec,
        "state": tokenizer.state(),
        "splits": list(truncated),
        "truncated": truncated,
        "examples": examples,
        "notes": list(notes),
        **more,
    }
