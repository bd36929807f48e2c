"""How high a price is: up a ladder to the first that does it, then closer to the edge.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808, raises
lambda up to the loss that is accepted. A limit on what may be found is met in the same way from the
other side: by the lowest price at which it is kept.
"""

import math
from collections.abc import Callable, Sequence

_UP, _FIRST = 4.0, 0.1  # a further price over the one before, and over nothing
MORE = 4  # further prices at most


def highest_accepted(
    prices: Sequence[float], refine: int, accepted: Callable[[float], bool]
) -> float | None:
    """The highest price that is accepted; None where none is.

    Each of the ``refine`` further prices is the geometric mean of the highest accepted and the
    lowest refused; below the whole ladder, a third of the lowest refused.
    """
    low, high = None, None
    for price in prices:
        if not accepted(price):
            high = price
            break
        low = price
    for _ in range(refine if high else 0):
        assert high is not None
        middle = float(f"{math.sqrt(low * high) if low else high / 3:.3g}")
        if accepted(middle):
            low = middle
        else:
            high = middle
    return low


def lowest_kept(
    prices: Sequence[float], refine: int, kept: Callable[[float], bool], *, more: int = MORE
) -> float | None:
    """The lowest price by which a limit is kept; None where it never is.

    Where none of the rising ``prices`` does, up to ``more`` higher ones follow. Each of the
    ``refine`` further prices is the geometric mean of the highest that broke the limit and the
    lowest that kept it; above a price of 0, a quarter of the latter.
    """
    low, high = None, None
    for price in (*prices, *_higher(prices[-1], more)):
        if kept(price):
            high = price
            break
        low = price
    for _ in range(refine if high and low is not None else 0):
        assert high is not None
        middle = float(f"{math.sqrt(low * high) if low else high / _UP:.3g}")
        if kept(middle):
            high = middle
        else:
            low = middle
    return high


def _higher(price: float, count: int) -> list[float]:
    first = price * _UP if price else _FIRST
    return [float(f"{first * _UP**number:.3g}") for number in range(count)]
