"""What changed from one architecture to another, in words."""

from dataclasses import dataclass
from typing import Any

from formwright.arch.layer import Residual, Stack
from formwright.arch.node import Node, field_types
from formwright.arch.writer import write


@dataclass(frozen=True)
class Change:
    """One difference: where, what was there, what is there now (``None``: nothing)."""

    path: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.path}: added {self.after}"
        if self.after is None:
            return f"{self.path}: removed {self.before}"
        return f"{self.path}: {self.before} -> {self.after}"


def diff(a: Node, b: Node) -> list[Change]:
    """Every difference between two nodes, in the order they appear; empty when equal.

    >>> from formwright import parse
    >>> for change in diff(parse("sf in gpt2(64)"), parse("sff in gpt2(64)")):
    ...     print(change.path)
    layers[2]
    """
    return _compare("", a, b)


def _compare(path: str, a: Any, b: Any) -> list[Change]:
    if a == b and type(a) is type(b):
        return []
    if isinstance(a, Node) and isinstance(b, Node) and type(a) is type(b):
        return [
            change
            for name in field_types(type(a))
            for change in _compare(_below(a, path, name), getattr(a, name), getattr(b, name))
        ]
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _compare_lists(path, a, b)
    return [Change(path, write(a), write(b))]


def _compare_lists(path: str, a: tuple[Any, ...], b: tuple[Any, ...]) -> list[Change]:
    """Line the lists up with the fewest edits, so that one inserted layer is one change."""
    changes: list[Change] = []
    for i, j in _aligned(a, b):
        if i is None:
            changes.append(Change(f"{path}[{j}]", None, write(b[j])))
        elif j is None:
            changes.append(Change(f"{path}[{i}]", write(a[i]), None))
        else:
            changes += _compare(f"{path}[{j}]", a[i], b[j])
    return changes


def _aligned(a: tuple[Any, ...], b: tuple[Any, ...]) -> list[tuple[int | None, Any]]:
    """Pairs of indices, None where one list has no partner (edit distance, ties pair early)."""
    # cost[i][j]: edits from a[i:] to b[j:], filled from the back
    cost = [[len(a) - i + len(b) - j for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in reversed(range(len(a))):
        for j in reversed(range(len(b))):
            cost[i][j] = min(
                cost[i + 1][j + 1] + _price(a[i], b[j]),
                cost[i + 1][j] + 1,
                cost[i][j + 1] + 1,
            )
    pairs: list[tuple[int | None, Any]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        both = i < len(a) and j < len(b)
        if both and cost[i][j] == cost[i + 1][j + 1] + _price(a[i], b[j]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif i < len(a) and cost[i][j] == cost[i + 1][j] + 1:
            pairs.append((i, None))
            i += 1
        else:
            pairs.append((None, j))
            j += 1
    return pairs


def _price(a: Any, b: Any) -> int:
    """0 for equal, 1 for a change within, 2 for something else altogether."""
    if a == b and type(a) is type(b):
        return 0
    return 1 if _core(a) is _core(b) else 2


def _core(value: Any) -> type:
    """What a layer is about, seen through the branch around it."""
    while isinstance(value, Residual):
        value = value.inner
    return type(value)


def _below(node: Node, path: str, name: str) -> str:
    if isinstance(node, Stack):  # layers[3], not layers.layers[3]
        return path or name
    return f"{path}.{name}" if path else name
