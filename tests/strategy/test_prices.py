"""How a price is found: the lowest by which a limit is kept, with few searches."""

import pytest

from formwright.strategy.gradient.ladder import highest_accepted, lowest_kept


def test_the_lowest_price_that_keeps_a_limit_is_closed_in_on() -> None:
    tried: list[float] = []

    def kept(price: float) -> bool:
        tried.append(price)
        return price >= 0.25

    assert lowest_kept((0.1, 0.2), 3, kept) == pytest.approx(0.283)
    assert tried == [0.1, 0.2, 0.8, 0.4, 0.283, 0.238]


def test_no_price_is_tried_above_one_that_keeps_the_limit() -> None:
    tried: list[float] = []
    assert lowest_kept((0.0, 1.0), 4, lambda price: not tried.append(price)) == 0.0  # type: ignore[func-returns-value]
    assert tried == [0.0], "nothing lies below no price at all"


def test_from_no_price_it_goes_up_by_itself_and_gives_up_at_last() -> None:
    tried: list[float] = []
    assert lowest_kept((0.0,), 2, lambda price: bool(tried.append(price))) is None  # type: ignore[func-returns-value]
    assert tried == [0.0, 0.1, 0.4, 1.6, 6.4]


def test_above_no_price_a_quarter_is_tried() -> None:
    tried: list[float] = []

    def kept(price: float) -> bool:
        tried.append(price)
        return price >= 0.02

    assert lowest_kept((0.0, 0.1), 1, kept) == 0.025
    assert tried == [0.0, 0.1, 0.025]


def test_both_ladders_meet_at_the_edge() -> None:
    """What is accepted below 0.5 and what keeps a limit from there on end beside each other."""
    low = highest_accepted((0.1, 1.0), 6, lambda price: price < 0.5)
    high = lowest_kept((0.1, 1.0), 6, lambda price: price >= 0.5)
    assert low is not None
    assert high is not None
    assert low < 0.5 <= high
    assert high / low < 1.06
