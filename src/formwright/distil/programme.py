"""Which block at which place: a mixed-integer programme, solved exactly.

One alternative is taken at each place, the sum of their scores is made small, and sums of prices
stay below limits (Molchanov et al. 2021, LANA, https://arxiv.org/abs/2107.10624; Bercovich et al.
2024, Puzzle, https://arxiv.org/abs/2411.19146). SciPy's HiGHS proves that nothing is better.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from formwright.errors import InputError

_EPS = 1e-9  # by how much, relative, a sum of prices may seem to break a limit


@dataclass(frozen=True)
class Choices:
    """What may be chosen, and what it costs.

    Args:
        scores: Place to alternative to how much it harms; one that is no number is never taken.
        prices: Name of a price to the same.
        base: What is paid in any case, by name of the price.
    """

    scores: tuple[tuple[float, ...], ...]
    prices: Mapping[str, tuple[tuple[float, ...], ...]]
    base: Mapping[str, float]

    def price(self, name: str, choice: Sequence[int]) -> float:
        """What a choice costs in all."""
        rows = zip(self.prices[name], choice, strict=True)
        return self.base[name] + sum(row[taken] for row, taken in rows)

    def score(self, choice: Sequence[int]) -> float:
        """How much a choice harms, as far as harms add up."""
        return sum(row[taken] for row, taken in zip(self.scores, choice, strict=True))

    def least(self, name: str) -> float:
        """The smallest price that any choice has."""
        return self.base[name] + sum(min(self._usable(row, n)) for n, row in self._rows(name))

    def keeps(self, choice: Sequence[int], limits: Mapping[str, float]) -> bool:
        """Whether a choice keeps all limits."""
        return all(self.price(name, choice) <= most * (1 + _EPS) for name, most in limits.items())

    def rescored(self, scores: Sequence[Sequence[float]]) -> "Choices":
        """The same with other scores."""
        return replace(self, scores=tuple(tuple(row) for row in scores))

    def _rows(self, name: str) -> Any:
        return enumerate(self.prices[name])

    def _usable(self, row: Sequence[float], place: int) -> list[float]:
        pairs = zip(row, self.scores[place], strict=True)
        return [price for price, score in pairs if math.isfinite(score)]


def best_choice(
    choices: Choices,
    limits: Mapping[str, float],
    *,
    without: Sequence[Sequence[int]] = (),
    near: Sequence[int] | None = None,
    changes: int = 0,
) -> tuple[int, ...] | None:
    """The choice of least score that keeps the limits; None where none does.

    Args:
        choices: What there is.
        limits: Name of a price to the most that it may be.
        without: Choices that are not to be found again.
        near: A choice from which only few places may differ.
        changes: How many.
    """
    milp, constraint, bounds = _scipy()
    sizes = [len(row) for row in choices.scores]
    starts = np.cumsum([0, *sizes])
    scores = np.concatenate([np.asarray(row, dtype=float) for row in choices.scores])
    usable = np.isfinite(scores)
    rows, low, high = [], [], []

    def add(row: np.ndarray, least: float, most: float) -> None:
        rows.append(row)
        low.append(least)
        high.append(most)

    for place, size in enumerate(sizes):
        row = np.zeros(starts[-1])
        row[starts[place] : starts[place] + size] = 1
        add(row, 1, 1)
    for name, most in limits.items():
        room = most * (1 + _EPS) - choices.base[name]
        prices = np.concatenate([np.asarray(r, dtype=float) for r in choices.prices[name]])
        scale = max(abs(room), 1e-12)
        add(prices / scale, -np.inf, room / scale)
    for known in without:
        add(_marked(known, starts), -np.inf, len(sizes) - 1)
    if near is not None:
        add(_marked(near, starts), len(sizes) - changes, np.inf)
    found = milp(
        np.where(usable, scores, 0.0),
        integrality=np.ones(starts[-1]),
        bounds=bounds(0, usable.astype(float)),
        constraints=constraint(np.array(rows), low, high),
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    taken = [int(np.argmax(found.x[a:b])) for a, b in pairwise(starts)]
    return tuple(taken)


def require_choice(choices: Choices, limits: Mapping[str, float]) -> tuple[int, ...]:
    """The best choice, or the sentence that says what the smallest possible is."""
    for name, most in limits.items():
        least = choices.least(name)
        if least > most * (1 + _EPS):
            raise InputError(
                f"No student keeps {name} at most {_words(name, most)}: the smallest possible, "
                f"with nothing left that can go, has {_words(name, least)}. Raise the limit."
            )
    found = best_choice(choices, limits)
    if found is None:
        said = " and ".join(f"{name} at most {_words(name, m)}" for name, m in limits.items())
        raise InputError(f"No student keeps {said} at once, though each alone can be kept.")
    return found


def _marked(choice: Sequence[int], starts: np.ndarray) -> np.ndarray:
    row = np.zeros(starts[-1])
    for place, taken in enumerate(choice):
        row[starts[place] + taken] = 1
    return row


def _words(name: str, value: float) -> str:
    return f"{value:.4g} ms" if name == "latency" else f"{value:,.0f}"


def _scipy() -> tuple[Any, Any, Any]:
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415  # optional
    except ImportError:
        raise InputError(
            "Choosing blocks under limits needs a package that is not installed: "
            "pip install 'formwright[compress]'"
        ) from None
    return milp, LinearConstraint, Bounds
