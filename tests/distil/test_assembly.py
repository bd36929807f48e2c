"""The table of models that is never written out: sums, limits, the same answer as brute force."""

from itertools import pairwise, product
from random import Random
from re import escape
from time import process_time

import pytest

from formwright.distil.assembly import Assembled, Assembly, Block
from formwright.errors import InputError

WIDTHS = (128, 192, 256, 384, 512)


def made(places: int, blocks: int, seed: int) -> list[list[Block]]:
    rng = Random(seed)

    def block(number: int) -> Block:
        width = rng.choice(WIDTHS)
        params = rng.randint(1, 6) * width * width * rng.uniform(2, 8)
        latency, loss = params / 1e6 * rng.uniform(0.5, 2), rng.uniform(0.5, 2)
        return Block(f"{width} {number}", width, params, latency, loss / (1 + params / 1e6))

    return [[block(number) for number in range(blocks)] for _ in range(places)]


def between(widths: tuple[int, ...]) -> tuple[float, float]:
    maps = sum(a * b for a, b in pairwise(widths) if a != b)
    return widths[0] * 5000.0 + maps + widths[-1] * widths[0], 0.001 * widths[-1]


def listed(table: Assembly) -> list[Assembled]:
    return [table.row(n) for n in product(*(range(len(place)) for place in table.places))]


@pytest.mark.parametrize("places", [1, 2, 3, 4])
@pytest.mark.parametrize("limits", [(None, None), (9e6, None), (None, 4.0), (6e6, 3.0)])
def test_it_answers_as_brute_force_does(
    places: int, limits: tuple[float | None, float | None]
) -> None:
    for seed in range(3):
        table = Assembly(made(places, 7, seed), between)
        most = [float("inf") if limit is None else limit for limit in limits]
        allowed = [r for r in listed(table) if r.params <= most[0] and r.latency <= most[1]]
        allowed.sort(key=lambda row: row.loss)
        assert allowed
        found = table.select(*limits, 25)
        assert [r.loss for r in found] == pytest.approx([r.loss for r in allowed[:25]], abs=1e-12)
        assert {r.blocks for r in found} == {r.blocks for r in allowed[:25]}


def test_sums_add_up_and_limits_are_kept() -> None:
    table = Assembly(made(4, 20, 5), between)
    for row in table.select(8e6, 4.0, 100):
        around = between(tuple(block.width for block in row.blocks))
        assert row.loss == pytest.approx(sum(block.loss for block in row.blocks))
        assert row.params == pytest.approx(around[0] + sum(b.params for b in row.blocks))
        assert row.latency == pytest.approx(around[1] + sum(b.latency for b in row.blocks))
        assert row.params <= 8e6
        assert row.latency <= 4.0


def test_a_hundred_million_rows_are_answered_in_seconds() -> None:
    table = Assembly(made(4, 100, 1), between)
    assert table.rows == 10**8
    for limits in ((12e6, 5.0), (8e6, 3.0), (60e6, 40.0), (30e6, 2.0)):
        begin = process_time()
        found = table.select(*limits, 100)
        assert process_time() - begin < 2.0
        assert len(found) == 100
        assert all(row.params <= limits[0] and row.latency <= limits[1] for row in found)
        assert [row.loss for row in found] == sorted(row.loss for row in found)


def test_ties_are_broken_the_same_way_every_time() -> None:
    level = [[Block(f"8 {i}", 8, 1.0, 1.0, 0.5) for i in range(6)] for _ in range(2)]
    table = Assembly(level, lambda widths: (0.0, 0.0))
    found = [tuple(b.path for b in row.blocks) for row in table.select(None, None, 7)]
    assert found == sorted(found)[:7]
    assert found[0] == ("8 0", "8 0")


def test_limits_that_nothing_meets_name_the_smallest() -> None:
    table = Assembly(made(2, 5, 1), between)
    least, fastest = table.smallest()
    rows = listed(table)
    assert least == pytest.approx(min(row.params for row in rows))
    assert fastest == pytest.approx(min(row.latency for row in rows))
    with pytest.raises(InputError, match=escape(f"the smallest has {least:.4g} parameters")):
        table.select(least / 2, None, 3)
    with pytest.raises(InputError, match="a place has no block left"):
        Assembly([[], level_blocks()], between)


def level_blocks() -> list[Block]:
    return [Block("8 M", 8, 1.0, 1.0, 0.5)]
