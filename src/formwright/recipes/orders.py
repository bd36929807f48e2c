"""Orders of sub-layers, as strings of letters and as decisions of a space.

Papers: PAR, Mandava et al. 2020, https://arxiv.org/abs/2009.04534; sandwich Transformers, Press et
al. 2019, https://arxiv.org/abs/1911.03864.
"""

from formwright.arch import Architecture, notation, parse
from formwright.arch.style import Style
from formwright.space import Decisions

LETTERS = "sfi"
NOTHING = LETTERS.index("i")


def plain_order(slots: int) -> str:
    """Attention and feed-forward in turn."""
    return f"(sf)x{slots // 2}"


def sandwich_order(slots: int) -> str:
    """Sandwich Transformers (https://arxiv.org/abs/1911.03864): k attentions first, k feed-forwards
    last. k is 6, as PAR compares with at 24, 32 and 36 blocks; half the pairs of shorter ones."""
    pairs = slots // 2
    ends = max(1, min(6, pairs // 2))
    middle = f"(sf)x{pairs - ends}" if pairs > ends else ""
    return f"(s)x{ends}{middle}(f)x{ends}"


def par_order(slots: int) -> str:
    """The paper's design rule: a fifth of the blocks attend, evenly over the first two thirds.

    Both counts are rounded to the nearest, which gives the published orders of 32 and 24 blocks.
    """
    attends = max(1, (2 * slots + 5) // 10)  # slots / 5
    period = max(1, (4 * slots + 3 * attends) // (6 * attends))  # (2/3 slots) / attends
    rest = slots - attends * period
    unit = "s" + "f" * (period - 1)
    return f"({unit})x{attends}" + (f"(f)x{rest}" if rest else "")


def decisions_of(order: str, family: Style) -> Decisions:
    """What a string of letters decides, slot by slot."""
    options = [family.letters[letter] for letter in LETTERS]
    layers = parse(order, defaults=family).layers.layers
    return {f"layer{i}": options.index(layer) for i, layer in enumerate(layers)}


def word_of(decisions: Decisions) -> str:
    """The letters of an order without those that stand for nothing, which change nothing."""
    return "".join(LETTERS[int(o)] for o in decisions.values() if o != NOTHING)


def compacted(decisions: Decisions) -> Decisions:
    """The same order with nothing at its end only."""
    kept = [option for option in decisions.values() if option != NOTHING]
    options = [*kept, *[NOTHING] * (len(decisions) - len(kept))]
    return dict(zip(decisions, options, strict=True))


def letters_of(arch: Architecture) -> str:
    """The order of an architecture's layers, repetitions folded: what its notation begins with."""
    return notation(arch).partition(" ")[0]
