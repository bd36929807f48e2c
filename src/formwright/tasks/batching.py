"""Which examples are read together: buckets of similar length, in an order that (seed, step) fixes.

Rows are cut into buckets by length such that filling every bucket up to its longest row wastes at
most a tenth. Each epoch shuffles rows inside their bucket and then the order of the batches. The
buckets, and so the number of batches, are the same in every epoch: any step can be found without
the ones before it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from formwright.tasks.base import Batch, BatchSampler

WASTE = 0.10  # of a bucket's positions that may be padding
_ENOUGH = 8  # full batches after which a bucket may close although it wastes little


def draw(*path: int) -> np.random.Generator:
    """Random numbers that follow from these whole numbers alone."""
    return np.random.default_rng([number % 2**64 for number in path])


@dataclass(frozen=True)
class Bucket:
    """Rows of similar length, and in how many batches an epoch reads them."""

    rows: np.ndarray
    batches: int


def make_buckets(lengths: np.ndarray, batch_tokens: int) -> list[Bucket]:
    """Cut rows into buckets.

    Args:
        lengths: (rows, columns) tokens of each row in each padded column; a translation has two.
        batch_tokens: Positions of a batch, padding included; a longer row has one of its own.
    """
    groups = [np.arange(len(lengths))]
    columns = lengths.shape[1]
    mean = max(1.0, float(lengths.sum(axis=1).mean())) if len(lengths) else 1.0
    enough = _ENOUGH * max(1.0, batch_tokens / mean)
    for column in range(columns):
        # cells are cut again by the next column, so the first ones must leave it more rows
        least = enough * _ENOUGH ** (columns - 1 - column)
        groups = [cell for rows in groups for cell in _cut(rows, lengths[:, column], least)]
    return [Bucket(rows, _batches_of(lengths[rows], batch_tokens)) for rows in groups]


def _cut(rows: np.ndarray, lengths: np.ndarray, enough: float) -> Iterator[np.ndarray]:
    """Rows in runs of similar length; a run ends when it is large or would waste too much."""
    rows = rows[np.argsort(lengths[rows], kind="stable")]
    sizes, starts = np.unique(lengths[rows], return_index=True)
    ends = [*starts[1:].tolist(), len(rows)]
    begin, real = 0, 0
    for size, start, end in zip(sizes.tolist(), starts.tolist(), ends, strict=True):
        wasted = 1 - (real + size * (end - start)) / max(1, size * (end - begin))
        if start > begin and (start - begin >= enough or wasted > WASTE):
            yield rows[begin:start]
            begin, real = start, 0
        real += size * (end - start)
    if len(rows) > begin:
        yield rows[begin:]


def _batches_of(lengths: np.ndarray, batch_tokens: int) -> int:
    most = max(1, batch_tokens // max(1, int(lengths.max(axis=0).sum())))
    return -(-len(lengths) // most)


class BucketSampler(BatchSampler):
    """Bucketed examples; ``collate`` makes a batch of the rows of a step."""

    def __init__(
        self,
        lengths: np.ndarray,
        batch_tokens: int,
        seed: int,
        collate: Callable[[np.ndarray, int], Batch],
    ) -> None:
        self.buckets = make_buckets(lengths, batch_tokens)
        self.seed, self.collate = seed, collate
        self.steps_per_epoch = sum(bucket.batches for bucket in self.buckets)
        self._epoch: tuple[int, list[np.ndarray]] = (-1, [])

    def rows(self, step: int) -> np.ndarray:
        """The rows of the split that a step reads."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._epoch[0] != epoch:  # remembered only to save time
            self._epoch = (epoch, self._order(epoch))
        return self._epoch[1][place]

    def batch(self, step: int) -> Batch:
        return self.collate(self.rows(step), step)

    def _order(self, epoch: int) -> list[np.ndarray]:
        random = draw(self.seed, epoch)
        made: list[np.ndarray] = []
        for bucket in self.buckets:
            made += np.array_split(random.permutation(bucket.rows), bucket.batches)
        return [made[place] for place in random.permutation(len(made))]


def in_order(lengths: np.ndarray, batch_tokens: int) -> Iterator[np.ndarray]:
    """Every row once, short ones first, in batches of at most ``batch_tokens`` positions."""
    order = np.lexsort(lengths.T[::-1])
    begin, widest = 0, np.zeros(lengths.shape[1], np.int64)
    for place, row in enumerate(order):
        grown = np.maximum(widest, lengths[row])
        if place > begin and int(grown.sum()) * (place + 1 - begin) > batch_tokens:
            yield order[begin:place]
            begin, grown = place, lengths[row].astype(np.int64)
        widest = grown
    if len(order) > begin:
        yield order[begin:]


class StreamSampler(BatchSampler):
    """A text cut into lanes that are read side by side, each going on where it stopped.

    An epoch reads every segment of every lane once. Where it begins, and where segments are cut,
    follows from (seed, epoch).
    """

    def __init__(
        self,
        symbols: int,
        length: int,
        batch_tokens: int,
        seed: int,
        make: Callable[[np.ndarray, int, bool], Batch],
    ) -> None:
        self.length = min(length, symbols - 1)
        self.lanes = max(1, min(batch_tokens // self.length, (symbols - 1) // self.length))
        whole = self.lanes * self.length
        # one segment is kept free where there is room, so that cuts can move from epoch to epoch
        self.steps_per_epoch = max(1, (symbols - 1 - self.length) // whole)
        self.slack = symbols - 1 - self.steps_per_epoch * whole
        self.seed, self.make = seed, make

    def places(self, step: int) -> tuple[np.ndarray, bool]:
        """Where each lane begins to read, and whether the text is fresh."""
        epoch, turn = divmod(step, self.steps_per_epoch)
        random = draw(self.seed, epoch)
        shift = int(random.integers(self.slack + 1))
        turn_first = int(random.integers(self.steps_per_epoch))
        place = (turn + turn_first) % self.steps_per_epoch
        lanes = np.arange(self.lanes) * self.steps_per_epoch * self.length
        return shift + lanes + place * self.length, turn == 0 or place == 0

    def batch(self, step: int) -> Batch:
        starts, fresh = self.places(step)
        return self.make(starts, self.length, fresh)


class ShuffledPlan(StreamSampler):
    """The same segments in an order of chance, for models that remember nothing between them.

    A few hundred steps then see all of a text, not a few pages of it: on source code the loss
    after 180 steps differed by a whole bit from seed to seed when lanes were read through.
    """

    _epoch: tuple[int, np.ndarray] = (-1, np.empty(0, np.int64))

    def places(self, step: int) -> tuple[np.ndarray, bool]:
        """Where each row begins to read; the text is always fresh."""
        epoch, turn = divmod(step, self.steps_per_epoch)
        if self._epoch[0] != epoch:  # remembered only to save time
            random = draw(self.seed, epoch)
            shift = int(random.integers(self.slack + 1))
            order = random.permutation(self.steps_per_epoch * self.lanes)
            self._epoch = (epoch, shift + order * self.length)
        return self._epoch[1][turn * self.lanes : (turn + 1) * self.lanes], True
