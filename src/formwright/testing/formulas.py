"""Random attention formulas that fit together, for tests of anything that takes a formula."""

from random import Random

from formwright.arch.graph.formula import Formula
from formwright.space.formulas import drawn_formula


def random_formula(
    rng: Random, *, heads: int = 2, causal: bool = False, most_steps: int = 8
) -> Formula:
    """A formula of any head size that may stand in any stack, or in a causal one.

    Args:
        rng: Where all choices come from.
        heads: Of the formula.
        causal: Whether it must not look ahead.
        most_steps: Random steps before those that bring it to an end.
    """
    drawn = drawn_formula(rng, heads, causal=causal, most_steps=most_steps)
    return drawn.replace(key=rng.choice((None, 2, 3)), bias=rng.random() < 0.5)
