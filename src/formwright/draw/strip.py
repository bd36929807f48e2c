"""Models as rows of small coloured cells, one per layer, and the legend of the colours."""

from collections.abc import Collection, Mapping

from formwright.arch.architecture import Architecture
from formwright.draw.canvas import Canvas, paint, text_width
from formwright.draw.outline import KINDS, Block, Kind, Outline, outline
from formwright.draw.words import shortened
from formwright.errors import InputError

_MARGIN = 24.0
_ROOM = 760.0  # what the longest row may take before its cells shrink
_CELL, _TALL, _BETWEEN = 22.0, 24.0, 12.0
_LONGEST_NAME = 32


def strip_svg(archs: Mapping[str, Architecture]) -> str:
    """Models below each other, a coloured cell per layer, so that their order can be compared.

    Args:
        archs: By name; the encoder stands before the decoder where there are two.
    """
    if not archs:
        raise InputError("There is nothing to compare; give at least one architecture.")
    outlines = [(shortened(name, _LONGEST_NAME), outline(arch)) for name, arch in archs.items()]
    canvas = Canvas()
    left = _MARGIN + max(text_width(name, 13, bold=True) for name, _ in outlines) + 16
    longest = max(sum(stack.depth for stack in seen.stacks) for _, seen in outlines)
    cell = min(_CELL, max(3.0, _ROOM / max(1, longest)))
    y, right = _MARGIN, left
    for name, seen in outlines:
        canvas.text(left - 16, y + 16, name, size=13, bold=True, anchor="end")
        end = _draw_row(canvas, seen, left, y, cell)
        total = " + ".join(str(stack.depth) for stack in seen.stacks)
        canvas.text(end + 10, y + 16, total, size=12, soft=True, anchor="start")
        right = max(right, end + 10 + text_width(total, 12))
        y += _TALL + _BETWEEN
    kinds = {block.kind for _, seen in outlines for s in seen.stacks for block in s.cells()}
    width = max(right + _MARGIN, 420.0)
    height = draw_legend(canvas, kinds, (_MARGIN, y + 10), width)
    described = "; ".join(f"{name}: {seen.notation}" for name, seen in outlines)
    return canvas.finish(width, height, f"Layers of {', '.join(archs)}", described)


def draw_legend(
    canvas: Canvas,
    kinds: Collection[Kind],
    place: tuple[float, float],
    width: float,
    *,
    norm: bool = False,
) -> float:
    """The colours that occur, in rows; the result is where the page may end."""
    left, y = place
    x = left
    entries: list[tuple[str, str]] = [(paint(kind), kind) for kind in KINDS if kind in kinds]
    entries += [("fw-norm", "norm")] if norm else []
    for cls, label in entries:
        room = 20 + text_width(label, 11.5) + 14
        if x > left and x + room > width - left:
            x, y = left, y + 22
        if cls == "fw-norm":
            canvas.rect((x, y + 4, 13, 5), cls, radius=2.5)
        else:
            canvas.rect((x, y, 13, 13), cls, radius=3)
        canvas.text(x + 20, y + 10.5, label, size=11.5, soft=True, anchor="start")
        x += room
    return y + (36 if entries else 10)


def _draw_row(canvas: Canvas, seen: Outline, x: float, y: float, cell: float) -> float:
    for number, stack in enumerate(seen.stacks):
        if number:  # the encoder's output goes on to the decoder
            canvas.line([(x + 4, y + _TALL / 2), (x + 14, y + _TALL / 2)])
            canvas.head(x + 18, y + _TALL / 2, right=True)
            x += 24
        for index, block in enumerate(stack.cells()):
            _draw_cell(canvas, block, f"{index + 1}", (x, y, cell))
            x += cell
    return x


def _draw_cell(
    canvas: Canvas, block: Block, number: str, place: tuple[float, float, float]
) -> None:
    x, y, cell = place
    gap = min(2.0, cell / 6)
    tip = f"{number}: {', '.join((block.title, *block.facts))}"
    box = (x, y, cell - gap, _TALL)
    canvas.rect(box, paint(block.kind), radius=min(4.0, cell / 4), tip=tip)
    if cell >= 12:
        canvas.text(x + (cell - gap) / 2, y + 16, block.letter, size=min(12.0, cell - 4))
