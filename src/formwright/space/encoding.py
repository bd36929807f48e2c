"""Members as vectors: what a surrogate learns from.

A number becomes one column from 0 to 1, a choice among unlike options one column for each of
them. A decision that may be out of play has a column that says whether it is in play.
"""

from typing import Any

import numpy as np

from formwright.space.choosing import Choosing, May, Some
from formwright.space.part import Decisions


class Encoding:
    """The columns of a space.

    Args:
        choices: Every decision that may be in play.
    """

    def __init__(self, choices: list[Choosing]) -> None:
        self.columns: list[str] = []
        self._places: list[tuple[str, int, dict[Any, float | int] | None]] = []
        for choice in choices:
            at = len(self.columns)
            if isinstance(choice, Some):
                self.columns += [f"{choice.name}[{i}]" for i in range(len(choice.inner))]
                self._places.append((choice.name, at, None))
            elif choice.numeric or isinstance(choice, May):
                low, high = float(min(choice.every)), float(max(choice.every))  # type: ignore[arg-type]
                scale = {v: (float(v) - low) / ((high - low) or 1.0) for v in choice.every}  # type: ignore[arg-type]
                self.columns += [choice.name, f"{choice.name} in play"]
                self._places.append((choice.name, at, scale))
            else:
                self.columns += [f"{choice.name}={value}" for value in choice.every]
                self._places.append((choice.name, at, {v: i for i, v in enumerate(choice.every)}))
        self._scaled = {
            choice.name
            for choice in choices
            if not isinstance(choice, Some) and (choice.numeric or isinstance(choice, May))
        }

    def __call__(self, decisions: Decisions) -> "np.ndarray[Any, np.dtype[np.float64]]":
        vector = np.zeros(len(self.columns))
        for name, at, meaning in self._places:
            value = decisions.get(name)
            if value is None:
                continue
            if meaning is None:
                vector[[at + i for i in value]] = 1.0
            elif name in self._scaled:
                vector[at], vector[at + 1] = meaning[value], 1.0
            else:
                vector[at + int(meaning[value])] = 1.0
        return vector
