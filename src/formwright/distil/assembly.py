"""The table of all models that can be put together from a few blocks, never written out.

Paper: NAS-BERT, Xu et al. 2021, https://arxiv.org/abs/2105.14444: with 100 blocks left at each of
four places there are 1e8 models. Loss, parameters and latency of a model are sums over its blocks,
and what lies between and around them (embedding, maps where the width changes, head) depends on
the widths alone.

So the table is cut in two: all first halves and all second halves, 1e4 each, in groups of equal
widths and sorted by loss. Two groups are looked at together only while their best sum can still
be among the best; within them, all sums at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from formwright.errors import InputError

Array = np.ndarray[Any, np.dtype[np.float64]]
Between = Callable[[tuple[int, ...]], tuple[float, float]]
_AT_ONCE = 2_000_000  # sums that are looked at together


@dataclass(frozen=True)
class Block:
    """A block that is left at its place.

    Args:
        path: As it is written.
        width: Of its stream.
        params: Of its operators.
        latency: The sum of theirs.
        loss: Of the block alone, against the teacher.
    """

    path: str
    width: int
    params: float
    latency: float
    loss: float


@dataclass(frozen=True)
class Assembled:
    """A row of the table: the blocks of a model, and its sums."""

    blocks: tuple[Block, ...]
    params: float
    latency: float
    loss: float


@dataclass(frozen=True)
class _Half:
    """First or second halves of models, all of the same widths, the best first."""

    widths: tuple[int, ...]
    numbers: np.ndarray[Any, np.dtype[np.int64]]  # (rows, places) which block stands where
    loss: Array
    params: Array
    latency: Array


class Assembly:
    """All models that blocks make.

    Args:
        places: The blocks that may stand at each place.
        between: Parameters and latency of all that is no block, by the widths of the places.
    """

    def __init__(self, places: Sequence[Sequence[Block]], between: Between) -> None:
        if not places or not all(places):
            raise InputError("No model can be put together: a place has no block left.")
        self.places, self.between = [list(place) for place in places], between

    @property
    def rows(self) -> int:
        """How many models there are."""
        total = 1
        for place in self.places:
            total *= len(place)
        return total

    def select(self, params: float | None, latency: float | None, count: int) -> list[Assembled]:
        """The models of least loss that keep both limits, the best first; ties by their blocks.

        Args:
            params: At most; None for any number.
            latency: At most; None for any.
            count: How many.
        """
        limits = (
            float("inf") if params is None else params,
            float("inf") if latency is None else latency,
        )
        best: list[tuple[float, tuple[int, ...]]] = []  # loss, and the block at each place
        for first, second in self._pairs():
            worst = best[-1][0] if len(best) >= count else float("inf")
            if first.loss[0] + second.loss[0] > worst:
                break  # and so do all pairs behind it
            best += self._among(first, second, limits, worst, count)
            best.sort()
            del best[count:]
        if not best:
            raise self._unmet(limits)
        return [self.row(numbers) for _, numbers in best]

    def _pairs(self) -> list[tuple[_Half, _Half]]:
        """Groups of first and second halves, by the least loss that they can have together."""
        pairs = list(product(*self._halves))
        return sorted(pairs, key=lambda pair: float(pair[0].loss[0] + pair[1].loss[0]))

    def _among(
        self,
        first: _Half,
        second: _Half,
        limits: tuple[float, float],
        worst: float,
        count: int,
    ) -> list[tuple[float, tuple[int, ...]]]:
        """The best of two groups that keep the limits."""
        params, latency = self.between(first.widths + second.widths)
        room = (limits[0] - params, limits[1] - latency)
        first, second = _fitting(first, second, room), _fitting(second, first, room)
        if not len(first.loss) or not len(second.loss):
            return []
        found: list[tuple[float, tuple[int, ...]]] = []
        step = max(1, _AT_ONCE // len(second.loss))
        for at in range(0, len(first.loss), step):
            rows = slice(at, at + step)
            if first.loss[at] + second.loss[0] > worst:
                break
            loss = first.loss[rows, None] + second.loss
            keeps = loss <= worst
            keeps &= first.params[rows, None] + second.params <= room[0]
            keeps &= first.latency[rows, None] + second.latency <= room[1]
            flat = np.flatnonzero(keeps)
            if not len(flat):
                continue
            values = loss.ravel()[flat]
            if len(flat) > count:  # with all that are level with the last of them
                bar = np.partition(values, count - 1)[count - 1]
                flat = flat[values <= bar]
            for place in flat.tolist():
                i, j = divmod(place, len(second.loss))
                numbers = (*first.numbers[at + i].tolist(), *second.numbers[j].tolist())
                found.append((float(loss[i, j]), numbers))
            found.sort()
            del found[count:]
            if len(found) == count:
                worst = min(worst, found[-1][0])
        return found

    @cached_property
    def _halves(self) -> tuple[list[_Half], list[_Half]]:
        middle = len(self.places) // 2
        return _grouped(self.places[:middle]), _grouped(self.places[middle:])

    def row(self, numbers: Sequence[int]) -> Assembled:
        """The model with these blocks at its places."""
        blocks = tuple(place[i] for place, i in zip(self.places, numbers, strict=True))
        params, latency = self.between(tuple(block.width for block in blocks))
        return Assembled(
            blocks,
            params + sum(block.params for block in blocks),
            latency + sum(block.latency for block in blocks),
            sum(block.loss for block in blocks),
        )

    def smallest(self) -> tuple[float, float]:
        """The fewest parameters, and the least latency, that a model can have."""
        least = [float("inf"), float("inf")]
        for first, second in product(*self._halves):
            around = self.between(first.widths + second.widths)
            for i, name in enumerate(("params", "latency")):
                sums = getattr(first, name).min() + getattr(second, name).min() + around[i]
                least[i] = min(least[i], float(sums))
        return least[0], least[1]

    def _unmet(self, limits: tuple[float, float]) -> InputError:
        params, latency = self.smallest()
        asked = [
            f"{most:.4g} {words}"
            for most, words in zip(limits, ("parameters", "ms"), strict=True)
            if most != float("inf")
        ]
        return InputError(
            f"No model of these blocks keeps {' and '.join(asked) or 'the limits'}: the smallest "
            f"has {params:.4g} parameters, the fastest takes {latency:.4g}. Raise a limit."
        )


def _fitting(half: _Half, other: _Half, room: tuple[float, float]) -> _Half:
    """Those halves that keep the limits with the cheapest of the others, at least."""
    keeps = half.params + other.params.min() <= room[0]
    keeps &= half.latency + other.latency.min() <= room[1]
    if keeps.all():
        return half
    rows = (half.numbers[keeps], half.loss[keeps], half.params[keeps], half.latency[keeps])
    return _Half(half.widths, *rows)


def _grouped(places: Sequence[Sequence[Block]]) -> list[_Half]:
    """All combinations of some places, in groups of equal widths, each sorted by loss."""
    found = []
    by_width = [_by_width(place) for place in places]
    for widths in product(*by_width):
        chosen = list(product(*(by_width[i][w] for i, w in enumerate(widths))))
        numbers = np.array(chosen, dtype=np.int64).reshape(len(chosen), len(places))
        sums = {
            name: sum(
                (
                    np.array([getattr(b, name) for b in place])[numbers[:, i]]
                    for i, place in enumerate(places)
                ),
                start=np.zeros(len(numbers)),
            )
            for name in ("loss", "params", "latency")
        }
        order = np.argsort(sums["loss"], kind="stable")
        found.append(
            _Half(widths, numbers[order], **{name: total[order] for name, total in sums.items()})
        )
    return found


def _by_width(place: Sequence[Block]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for number, block in enumerate(place):
        found.setdefault(block.width, []).append(number)
    return found
