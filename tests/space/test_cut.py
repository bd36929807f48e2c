"""The networks that components make: as many as there should be, and priced by what they take."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.supernet.components import CUT, FRAME

from formwright.arch import Architecture, Attention, FeedForward, parse
from formwright.arch.counting import count
from formwright.cost.components import component_times, shares_of_time
from formwright.errors import InputError
from formwright.space.components import cut_of, grouped, groupings, predicted, prices
from formwright.supernet import Supernet


def flops(arch: Architecture) -> float:
    """A machine that takes as long as it computes."""
    return float(count(arch, length=12).flops)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": 3}, "3 heads"),
        ({"inner": 30}, "inner width of 30"),
        ({"key_parts": 9}, "channels"),
    ],
)
def test_a_cut_that_does_not_come_out_even_is_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(InputError if "key_parts" not in changes else Exception, match=says):
        replace(CUT, **changes)


def test_a_cut_takes_the_sizes_of_the_model_and_is_as_fine_as_they_allow() -> None:
    arch = parse("(sf)x2 in bert(24, heads=3, inner=48) for frame(20, 40, features)")
    found = cut_of(arch, CUT)
    assert found is not None
    assert (found.layers, found.width, found.heads, found.inner) == (2, 24, 3, 48)
    assert (found.head_parts, found.inner_parts) == (1, 4)  # 4 does not divide 3 heads


@pytest.mark.parametrize("parts", [1, 2, 4, 5])
def test_parts_are_grouped_in_as_many_ways_as_connectors_make_networks(parts: int) -> None:
    found = groupings(parts)
    assert len(set(found)) == len(found) == 2**parts
    # k components have 2^(k-1) layerings
    assert sum(sum(groups) == parts for groups in found) == 2 ** (parts - 1)


def test_a_dropped_part_still_closes_the_layer_before_it() -> None:
    assert grouped([True, False, True], [False, True]) == (1, 1)
    assert grouped([False, True, True], [True, False]) == (2,)
    assert grouped([True, True, False], [True, True]) == (1, 1)
    assert grouped([False, False], [True]) == ()


def test_every_member_can_be_built_and_the_whole_is_the_baseline() -> None:
    space = CUT.members(FRAME)
    assert space.size() == ((16 - 1) * 2 * 2 * 2 + 1) ** 2 * 16**2 * 2**4
    for seed in range(30):
        assert count(space.resolve(space.sample(Random(seed))).check()).params > 0
    whole = space.resolve(CUT.member(CUT.everything()))
    base = CUT.baseline(FRAME)
    assert count(whole).params == count(base).params
    assert count(whole).flops == count(base).flops


# --- prices -------------------------------------------------------------------------------------


def test_the_price_of_a_component_is_what_dropping_it_alone_saves() -> None:
    times = shares_of_time(CUT, FRAME, flops)
    space, whole = CUT.members(FRAME), CUT.everything()
    full = count(space.resolve(CUT.member(whole)), length=12).flops
    costs = prices(CUT, times)
    less = {
        "slice0.0": replace(whole[0], inner=(3,)),
        "head0.0": replace(whole[0], heads=(3,)),
    }
    for name, layer in less.items():
        found = count(space.resolve(CUT.member([layer, whole[1]])), length=12).flops
        assert costs[name][1] == pytest.approx((full - found) / full, rel=0.02)
    assert set(costs) == set(Supernet(CUT.components(FRAME)).slots)


def test_prices_of_parts_add_up_to_what_components_take() -> None:
    times = shares_of_time(CUT, FRAME, flops)
    names = ("feedforward", "query_key", "value", "heads", "norm_mean")
    for pricing, more in (("parts", 0.0), ("alone", times["query_key"] + times["value"])):
        costs = prices(CUT, times, pricing)  # type: ignore[arg-type]
        parts = {n: row for n, row in costs.items() if not n.startswith("close")}
        sliced = ("key", "value")
        total = sum(sum(row) if n.startswith(sliced) else row[1] for n, row in parts.items())
        assert total == pytest.approx(sum(times[name] for name in names) + more)


def test_predicted_time_is_that_of_the_whole_at_the_whole_and_adds_up() -> None:
    times = shares_of_time(CUT, FRAME, flops)
    assert predicted(CUT, times, CUT.member(CUT.everything())) == pytest.approx(1.0)
    space = CUT.members(FRAME)
    base = count(CUT.baseline(FRAME), length=12).flops
    for seed in range(20):
        decisions = space.sample(Random(seed))
        real_share = count(space.resolve(decisions), length=12).flops / base
        assert predicted(CUT, times, decisions) == pytest.approx(real_share, abs=0.05)


def test_heads_values_and_comparing_are_not_counted_twice() -> None:
    found = component_times(CUT.baseline(FRAME), flops)
    assert sum(found.shares.values()) == pytest.approx(1.0)


def test_connections_cost_what_stacking_takes() -> None:
    def measure(arch: Any) -> float:
        """A machine on which every operator takes one unit."""
        return 1.0 + sum(isinstance(n, Attention | FeedForward) for _, n in arch.walk())

    times = shares_of_time(CUT, FRAME, measure)
    assert times["close_slice"] == pytest.approx(1 / 5)
    assert times["close_head"] == pytest.approx(1 / 5)
