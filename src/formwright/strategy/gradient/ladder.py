"""How high a price may be: up a ladder to the first that loses too much, then closer to the edge.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808, raises
lambda up to the loss that is accepted.
"""

import math
from collections.abc import Callable, Sequence


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
