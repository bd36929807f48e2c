"""The order of sub-layers: attention, feed-forward or nothing, slot by slot.

Paper: "Pay Attention when Required", Mandava et al. 2020, https://arxiv.org/abs/2009.04534
"""

from formwright.arch.architecture import Architecture
from formwright.arch.frame import Frame
from formwright.arch.style import WIKITEXT_FRAME, Style, transformer_xl_base
from formwright.errors import InputError
from formwright.space.choice import OneOf, stack_of
from formwright.space.registry import published_space
from formwright.space.tree import TreeSpace

PAPER = "https://arxiv.org/abs/2009.04534"


@published_space("par", PAPER)
def par(
    slots: int | None = None,
    frame: Frame = WIKITEXT_FRAME,
    letters: str = "sfi",
    family: Style | None = None,
) -> TreeSpace:
    """PAR Transformer: 32 slots, each attention, feed-forward or nothing; 8 of another family."""
    slots = slots or (32 if family is None else 8)
    return order_space(family or transformer_xl_base(), frame, slots=slots, letters=letters)


def order_space(family: Style, frame: Frame | None, *, slots: int, letters: str) -> TreeSpace:
    """Any order of a family's sub-layers; ``letters`` are those of its notation."""
    unknown = sorted(set(letters) - set(family.letters))
    if unknown or not letters or slots < 1:
        raise InputError(
            f"letters={letters!r}, slots={slots} make no space; use letters of "
            f"{''.join(family.letters)!r} and at least one slot."
        )
    options = tuple(family.letters[letter] for letter in letters)
    layers = stack_of(*(OneOf(f"layer{i}", options) for i in range(slots)))
    return TreeSpace(Architecture(layers, family.backbone, frame=frame), name=f"order of {letters}")
