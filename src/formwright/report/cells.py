"""Architectures as rows of cells, one for each layer, and what tells them apart in words.

The colour of a cell is its kind, its height how broad the layer is inside, and the number in it
what is chosen first of its kind: heads of attention, inner channels, the kernel of a convolution.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from formwright.arch import Architecture
from formwright.draw import outline
from formwright.draw.canvas import paint
from formwright.draw.outline import KINDS, Block
from formwright.draw.words import TIMES
from formwright.report.html import Safe, tag
from formwright.report.words import figure

_ROOM = 384.0  # of a row of cells
_HIGH, _LEAST = 34.0, 14.0  # of the row, and of the lowest cell
_LETTER, _NUMBER = 11.0, 21.0  # widths of a cell from which on there is room for them
_GROUPS = 5  # kinds of layers told with all their sizes; more are told without
_FIRST = re.compile(r"\d[\d,]*")


def blocks_of(arch: Architecture) -> list[list[Block]]:
    """The layers of each stack in order."""
    return [stack.cells() for stack in outline(arch).stacks]


def broadest(archs: Iterable[Architecture]) -> int:
    """The most channels inside any layer, which the highest cell stands for."""
    sizes = [block.size for arch in archs for stack in blocks_of(arch) for block in stack]
    return max(sizes, default=1)


def cells_svg(arch: Architecture, tallest: int | None = None) -> Safe:
    """The layers of an architecture as a row of cells; a gap before the decoder.

    Args:
        arch: What is drawn.
        tallest: Channels that the highest cell stands for, of all that are shown together.
    """
    stacks = blocks_of(arch)
    tallest = tallest or broadest([arch])
    shapes, x = [], 0.0
    size = min(30.0, _ROOM / max(1, sum(map(len, stacks))))
    for number, blocks in enumerate(stacks):
        x += 8.0 * (number > 0)
        for block in blocks:
            shapes.append(_cell(block, x, size, tallest))
            x += size
    said = "; ".join(traits(arch))
    return tag(
        "svg",
        tag("title", f"Layers from first to last: {said}"),
        shapes,
        class_="cells",
        viewBox=f"-1 0 {max(x, 1) + 1:.1f} {_HIGH:g}",
        preserveAspectRatio="xMinYMid meet",
        role="img",
        aria_label=f"Layers from first to last: {said}",
    )


def _cell(block: Block, x: float, size: float, tallest: int) -> Safe:
    high = _LEAST + (_HIGH - 1 - _LEAST) * min(1.0, block.size / max(1, tallest))
    box = tag(
        "rect",
        class_=paint(block.kind),
        x=f"{x:.1f}",
        y=f"{_HIGH - 0.5 - high:.1f}",
        width=f"{max(1.0, size - 2):.1f}",
        height=f"{high:.1f}",
        rx=3,
    )
    words, middle = [], f"{x + size / 2 - 1:.1f}"
    number = key_number(block) if size >= _NUMBER and high >= 25 else ""
    if size > _LETTER:
        y = f"{_HIGH - (15 if number else 4):g}"
        words.append(tag("text", block.letter, x=middle, y=y))
    if number:
        words.append(tag("text", number, class_="size", x=middle, y=f"{_HIGH - 4:g}"))
    tip = tag("title", ", ".join((block.title, *block.facts)))
    return tag("g", tip, box, words)


def key_number(block: Block) -> str:
    """What is chosen first of a layer: its kernel, its heads or its inner channels."""
    for words in (block.title, *block.facts[:1]):
        found = _FIRST.search(words)
        if found:
            number = int(found[0].replace(",", ""))
            return str(number) if number < 10_000 else figure(number, 2)
    return ""


def traits(arch: Architecture) -> list[str]:
    """What an architecture is made of, in a few words each: width, then its kinds of layers."""
    blocks = [block for stack in blocks_of(arch) for block in stack]
    found = Counter((block.title, block.facts) for block in blocks)
    if len(found) > _GROUPS:
        found = Counter((block.title, ()) for block in blocks)
    width = f"width {arch.backbone.width}"
    return [width, *(_group(count, *words) for words, count in found.items())]


def _group(count: int, title: str, facts: tuple[str, ...]) -> str:
    said = f"{count} {TIMES} {title}"
    return f"{said} ({', '.join(facts)})" if facts else said


def told_apart(archs: Sequence[Architecture]) -> tuple[list[str], list[list[str]]]:
    """What all have in common, and what each has besides."""
    each = [traits(arch) for arch in archs]
    if len(each) < 2:
        return [], each
    common = [words for words in each[0] if all(words in other for other in each[1:])]
    return common, [[words for words in own if words not in common] for own in each]


def kinds_legend(archs: Iterable[Architecture]) -> Safe:
    """What the colours of cells mean, as far as they occur."""
    found = {block.kind for arch in archs for stack in blocks_of(arch) for block in stack}
    keys = []
    for kind in KINDS:
        if kind in found:
            box = tag("rect", class_=paint(kind), width=12, height=12, rx=3)
            swatch = tag("svg", box, class_="swatch", viewBox="-1 -1 14 14", aria_hidden="true")
            keys.append(tag("li", swatch, kind))
    return tag("ul", keys, class_="legend")
