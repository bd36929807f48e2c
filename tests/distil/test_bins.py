"""Bins by size and latency, and how they shrink."""

from random import Random

import pytest

from formwright.distil.bins import Bins, drawn, halved, settled
from formwright.errors import InputError


def test_every_block_lies_in_at_most_one_bin_and_within_its_ends() -> None:
    bins, rng = Bins(10, 100.0, 50.0), Random(0)
    costs = {str(i): (rng.uniform(0, 100), rng.uniform(0, 50)) for i in range(2000)}
    found, lost = bins.sorted_into(costs)
    listed = [path for paths in found.values() for path in paths]
    assert len(listed) == len(set(listed)) == 2000 - lost
    assert lost > 0
    for number, paths in found.items():
        for path in paths:
            params, latency = costs[path]
            assert (number - 1) * 10 < params < number * 10
            assert (number - 1) * 5 < latency < number * 5


def test_ends_belong_to_no_bin() -> None:
    bins = Bins(4, 4.0, 4.0)
    assert bins.place(1.0, 0.5) is None
    assert bins.place(4.0, 4.0) is None  # the largest itself, as published
    assert bins.place(0.0, 0.5) is None
    assert bins.place(0.5, 0.5) == 1
    assert bins.place(3.5, 3.9) == 4
    assert bins.place(0.5, 1.5) is None, "size and latency do not agree"
    pairs = Bins(4, 4.0, 4.0, agree=False)
    assert (pairs.place(0.5, 1.5), pairs.place(1.5, 0.5), pairs.place(0.5, 0.5)) == (2, 5, 1)
    assert pairs.place(1.0, 1.5) is None
    found, lost = pairs.sorted_into({"a": (0.5, 3.5), "b": (3.5, 3.5), "c": (4.0, 1.0)})
    assert (found, lost) == ({4: ["a"], 16: ["b"]}, 1)
    with pytest.raises(InputError, match="bins=0"):
        Bins(0, 1.0, 1.0)


@pytest.mark.parametrize("count", [3, 10, 11, 57, 300])
def test_a_bin_ends_with_exactly_as_many_as_it_may_or_had(count: int) -> None:
    least, judged, rng = 10, 40, Random(count)
    worth = {f"p{i}": rng.random() for i in range(count)}
    alive, rounds = list(worth), 0
    while not settled([alive], least):
        seen = drawn(alive, judged, rng)
        assert len(seen) == min(judged, len(alive))
        before = alive
        alive = halved(alive, {path: worth[path] for path in seen}, least)
        assert set(alive) < set(before)
        rounds += 1
        assert rounds < 40
    assert len(alive) == min(least, count)
    if count <= judged:  # all are judged in each round, so that the best are left
        assert set(alive) == set(sorted(worth, key=worth.__getitem__)[:least])


def test_only_the_worse_half_goes() -> None:
    losses = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert halved(["a", "b", "c", "d", "e"], losses, 1) == ["a", "b", "e"]
    assert halved(["a", "b", "c", "d", "e"], losses, 4) == ["a", "b", "c", "e"]
    assert halved(["a", "b"], {"a": 1.0, "b": 1.0}, 1) == ["a"]
