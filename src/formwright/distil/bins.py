"""Blocks by what they cost, and the better half of each bin, again and again.

Paper: NAS-BERT, Xu et al. 2021, https://arxiv.org/abs/2105.14444. Bins cut the sizes up to the
largest block evenly, and its latency likewise; a block lies in a bin only if both agree, strictly.
What lies in none is left out, and counted. Halving inside bins keeps small blocks from being judged
against large ones.
Differs from the paper: each pair of a size and a latency may be a bin of its own. On a CPU a small
convolution takes longer than a feed-forward of four times its size, and nine blocks in ten were
left out where both had to agree.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from formwright.errors import InputError


@dataclass(frozen=True)
class Bins:
    """Ranges of cost.

    Args:
        count: How many, of size and of latency alike.
        params: Of the largest block.
        latency: Of the slowest.
        agree: Whether size and latency must agree on a bin; each pair is one otherwise.
    """

    count: int
    params: float
    latency: float
    agree: bool = True

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"bins={self.count} must be at least 1.")

    def place(self, params: float, latency: float) -> int | None:
        """The bin of a block, from 1; None where size and latency do not agree on one.

        Both ends are left out, as published: a block exactly at an end lies in none.
        """
        by_size, by_time = self._bin(params / self.params), self._bin(latency / self.latency)
        if by_size is None or by_time is None:
            return None
        if not self.agree:
            return (by_size - 1) * self.count + by_time
        return by_size if by_size == by_time else None

    def _bin(self, share: float) -> int | None:
        number = int(share * self.count) + 1
        low, high = (number - 1) / self.count, number / self.count
        return number if number <= self.count and low < share < high else None

    def sorted_into(
        self, costs: Mapping[str, tuple[float, float]]
    ) -> tuple[dict[int, list[str]], int]:
        """Blocks by bin, and how many lie in none."""
        numbers = self.count if self.agree else self.count**2
        found: dict[int, list[str]] = {number: [] for number in range(1, numbers + 1)}
        lost = 0
        for path, cost in costs.items():
            number = self.place(*cost)
            if number is None:
                lost += 1
            else:
                found[number].append(path)
        return {number: paths for number, paths in found.items() if paths}, lost


def drawn(alive: Sequence[str], most: int, rng: Random) -> list[str]:
    """The blocks of a bin that a round judges: all of a few, some of many."""
    return list(alive) if len(alive) <= most else rng.sample(list(alive), most)


def halved(alive: Sequence[str], losses: Mapping[str, float], least: int) -> list[str]:
    """A bin without the worse half of those that were judged; never fewer than ``least`` stay."""
    judged = sorted(losses, key=lambda path: (losses[path], path))
    gone = min(len(judged) // 2, max(0, len(alive) - least))
    dropped = set(judged[len(judged) - gone :])
    return [path for path in alive if path not in dropped]


def settled(bins: Iterable[Sequence[str]], least: int) -> bool:
    """Whether no bin has more than ``least`` left."""
    return all(len(alive) <= least for alive in bins)
