"""Prices rise to the edge of what is accepted, and close in on it."""

import pytest

from formwright.strategy.gradient.ladder import highest_accepted


@pytest.mark.parametrize(
    ("bearable", "tried"),
    [
        (0.5, [0.2, 0.8, 0.4, 0.566, 0.476]),
        (0.1, [0.2, 0.0667, 0.115, 0.0876]),
        (9.0, [0.2, 0.8, 3.2]),
        (0.0, [0.2, 0.0667, 0.0222]),
    ],
)
def test_prices_rise_until_too_much_is_lost_and_then_close_in(
    bearable: float, tried: list[float]
) -> None:
    seen: list[float] = []

    def accepted(price: float) -> bool:
        seen.append(price)
        return price <= bearable

    refine = len(tried) - sum(price in (0.2, 0.8, 3.2) for price in tried)
    best = highest_accepted((0.2, 0.8, 3.2), refine, accepted)
    assert seen == tried
    assert best == max((p for p in tried if p <= bearable), default=None)
