"""Drawings for pages: self-contained SVG, for light and dark.

Every piece is measured first (``w``, ``h``) and then drawn at a place its surroundings choose.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from formwright.arch.architecture import Architecture
from formwright.draw.canvas import Canvas, paint, text_width
from formwright.draw.outline import Block, Kind, Outline, Piece, Run, StackOutline, outline
from formwright.draw.strip import draw_legend
from formwright.draw.words import TIMES, shortened, wrapped

_NARROW, _BROAD = 190.0, 310.0  # of a block in the stream
_SMALL = 150.0  # of a block inside another
_DEEPEST = 3  # panels in panels that are drawn; what lies below is only counted
_ABREAST = 4  # branches side by side before a new row begins
_MARGIN, _TOP = 28.0, 84.0
_APART = 48.0  # between encoder and decoder, where the link runs
_BESIDE = 34.0  # right of the blocks: the lane of the residual branches


def draw_svg(arch: Architecture, *, title: str | None = None) -> str:
    """The architecture as an SVG document, from the embedding down to the head.

    The breadth of a block shows its inner size, on a logarithmic scale.

    Args:
        arch: What to draw.
        title: Stands on top; the short notation when not given.

    >>> from formwright import parse
    >>> draw_svg(parse("sf in gpt2(64) for frame(256, 32, lm)")).startswith("<svg")
    True
    """
    seen = outline(arch)
    canvas, scale = Canvas(), _Scale.of(seen)
    name = shortened(title if title is not None else seen.notation, 70)
    subtitle = shortened(seen.heading + (f" · {seen.wrapping}" if seen.wrapping else ""), 110)
    canvas.text(_MARGIN, 36, name, size=18, bold=True, anchor="start")
    canvas.text(_MARGIN, 57, subtitle, size=12, soft=True, anchor="start")
    columns = [_column(stack, seen, scale) for stack in seen.stacks]
    right = _draw_columns(canvas, columns)
    blocks = [block for stack in seen.stacks for block in _all_blocks(stack.run)]
    kinds = {block.kind for block in blocks if len(block.branches) != 1}
    words = max(text_width(name, 18, bold=True), text_width(subtitle, 12))
    width = max(right, words + _MARGIN) + _MARGIN
    bottom = _TOP + max(column.h for column in columns) + 34
    has_norm = any(block.norm for block in blocks)
    height = draw_legend(canvas, kinds, (_MARGIN, bottom), width, norm=has_norm)
    whole = title if title is not None else seen.notation
    return canvas.finish(width, height, whole, f"{seen.heading}: {seen.notation}")


def _draw_columns(canvas: Canvas, columns: list["_Column"]) -> float:
    """The stacks side by side, and the link between two; the result is how far they reach."""
    x, axes = _MARGIN, []
    for column in columns:
        axes.append(x + column.w / 2)
        x += column.w + column.beside() + _APART
    for column, axis in zip(columns, axes, strict=True):
        column.draw(canvas, axis, _TOP)
    if len(columns) == 2:
        _draw_link(canvas, columns, axes)
    return x - _APART


# --- pieces ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    """Sizes to breadths."""

    low: float
    high: float

    @classmethod
    def of(cls, seen: Outline) -> "_Scale":
        sizes = [block.size for stack in seen.stacks for block in _all_blocks(stack.run)]
        low, high = min([*sizes, seen.width]), max([*sizes, seen.width])
        return cls(math.log2(low), max(math.log2(high), math.log2(low) + 2))

    def breadth(self, size: int) -> float:
        share = (math.log2(size) - self.low) / (self.high - self.low)
        return _NARROW + (_BROAD - _NARROW) * share


class _Piece:
    """Anything that has a size and can be drawn."""

    w: float
    h: float

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        """Draw it below ``y``, its middle (in a stack: the stream) being at ``x``."""
        raise NotImplementedError


class _Plate(_Piece):
    """A block with words in it."""

    def __init__(
        self, title: str, facts: Sequence[str], kind: Kind, w: float, *, small: bool = False
    ) -> None:
        self.title, self.kind, self.small = title, kind, small
        self.big, self.fine = (11.5, 10.0) if small else (13.0, 11.0)
        self.w = max(w, min(text_width(title, self.big, bold=True) + 20, _BROAD))
        room = int((self.w - 16) / text_width("m", self.fine))
        self.lines = wrapped(facts, room) if facts else []
        self.h = (26 if small else 32) + len(self.lines) * (self.fine + 3)
        self.tip = ", ".join((title, *facts))

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        box = (x - self.w / 2, y, self.w, self.h)
        canvas.rect(box, paint(self.kind), radius=7, tip=self.tip)
        room = int((self.w - 14) / text_width("m", self.big, bold=True))
        base = y + (17 if self.small else 21)
        canvas.text(x, base, shortened(self.title, room), size=self.big, bold=True)
        for line in self.lines:
            base += self.fine + 3.5
            canvas.text(x, base, line, size=self.fine, soft=True)


class _Panel(_Piece):
    """A block that holds others: branches side by side, or one series."""

    def __init__(self, block: Block, depth: int, said: Sequence[str]) -> None:
        self.block = block
        columns = [_Series(run, depth + 1) for run in block.branches]
        self.rows = [columns[i : i + _ABREAST] for i in range(0, len(columns), _ABREAST)]
        self.is_fan = len(columns) > 1 and len(self.rows) == 1
        self.title = block.title
        self.facts = ", ".join(said)
        inner = max(sum(c.w for c in row) + 14 * (len(row) - 1) for row in self.rows)
        words = text_width(self.title, 12, bold=True), text_width(self.facts, 10.5)
        self.w = max(inner + 28, min(max(words) + 28, 2 * _BROAD))
        self.head = 30.0 + 15 * bool(self.facts)
        self.pad = 12.0 if self.is_fan else 0.0
        tall = sum(max(c.h for c in row) for row in self.rows) + 12 * (len(self.rows) - 1)
        self.h = self.head + tall + 2 * self.pad + 14

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        cls = paint("parallel") if len(self.block.branches) > 1 else "fw-panel"
        box = (x - self.w / 2, y, self.w, self.h)
        canvas.rect(box, cls, radius=9, tip=", ".join((self.title, self.facts)))
        canvas.text(x, y + 19, self.title, size=12, bold=True)
        room = int((self.w - 14) / text_width("m", 10.5))
        if self.facts:
            canvas.text(x, y + 34, shortened(self.facts, room), size=10.5, soft=True)
        top = y + self.head + self.pad
        for row in self.rows:
            left = x - (sum(c.w for c in row) + 14 * (len(row) - 1)) / 2
            tall = max(c.h for c in row)
            places = []
            for column in row:
                places.append(left + column.w / 2)
                left += column.w + 14
            if self.is_fan:
                self._fan(canvas, places, row, top, tall)
            for place, column in zip(places, row, strict=True):
                column.draw(canvas, place, top)
            top += tall + 12

    def _fan(
        self, canvas: Canvas, places: list[float], row: list["_Series"], top: float, tall: float
    ) -> None:
        """The stream spreading into the branches, and coming together below them."""
        first, last = places[0], places[-1]
        up, down = top - 8, top + tall + 8
        canvas.line([(first, top), (first, up), (last, up), (last, top)])
        canvas.line([(first, top + row[0].h), (first, down), (last, down), (last, top + row[-1].h)])
        for place, column in zip(places[1:-1], row[1:-1], strict=True):
            canvas.line([(place, up), (place, top)])
            canvas.line([(place, top + column.h), (place, down)])


class _Series(_Piece):
    """Small blocks one below the other: a branch."""

    def __init__(self, run: Run, depth: int) -> None:
        self.label = f"{TIMES} {run.times}" if run.times > 1 else ""
        self.items = [_inner(part, depth) for part in run.parts]
        self.w = max([item.w for item in self.items], default=_SMALL) + 30 * bool(self.label)
        self.h = sum(item.h for item in self.items) + 10 * max(0, len(self.items) - 1)

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        top, middle = y, x - 15 * bool(self.label)
        for number, item in enumerate(self.items):
            if number:
                canvas.line([(middle, y - 10), (middle, y)])
            item.draw(canvas, middle, y)
            y += item.h + 10
        if self.label:
            edge = x + self.w / 2 - 28
            canvas.path(f"M{edge} {top + 2}h4v{self.h - 4}h-4")
            canvas.text(edge + 7, top + self.h / 2 + 4, self.label, size=11, anchor="start")


def _inner(part: Piece, depth: int) -> _Piece:
    if isinstance(part, Run):
        return _Series(part, depth)
    said = part.said(None)
    if not part.branches:
        return _Plate(part.title, said, part.kind, _SMALL, small=True)
    if depth >= _DEEPEST:
        more = (*said, f"{part.count()} layers inside")
        return _Plate(part.title, more, part.kind, _SMALL, small=True)
    return _Panel(part, depth, said)


class _Step(_Piece):
    """A layer in the stream: its residual branch and norm, and the piece itself."""

    def __init__(self, block: Block, common: str, scale: _Scale) -> None:
        said = block.said(common)
        self.block = block
        self.piece: _Piece
        if block.branches:
            self.piece = _Panel(block, 1, said)
        else:
            self.piece = _Plate(block.title, said, block.kind, scale.breadth(block.size))
        self.is_pre = block.place == "pre"
        self.above = 16.0 + 10 * self.is_pre
        self.below = (22.0 + 10 * (block.place != "pre" and bool(block.norm))) * bool(block.place)
        self.w = self.piece.w
        self.h = self.above + self.piece.h + self.below
        self.middle = 0.0  # where the piece was drawn

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        end = y + self.h
        canvas.line([(x, y), (x, end)])
        self.middle = y + self.above + self.piece.h / 2
        if self.block.place:
            self._residual(canvas, x, y)
        else:
            canvas.head(x, y + self.above)
        self.piece.draw(canvas, x, y + self.above)

    def _residual(self, canvas: Canvas, x: float, y: float) -> None:
        under = y + self.above + self.piece.h
        place, norm = self.block.place, bool(self.block.norm)
        plus = under + 12 + 10 * (place == "after" and norm)
        lane = x + max(self.w, _BROAD) / 2 + 12
        canvas.line([(x, y + 6), (lane, y + 6), (lane, plus), (x, plus)], "fw-faint")
        canvas.plus(x, plus)
        if norm:
            at = {"pre": y + self.above - 9, "after": under + 4, "post": plus + 9}[place]
            canvas.rect((x - 46, at, 92, 5), "fw-norm", radius=2.5, tip=self.block.norm)


class _Group(_Piece):
    """Steps in the stream, with a bracket where they repeat."""

    def __init__(self, run: Run, common: str, scale: _Scale) -> None:
        self.times = run.times
        self.items: list[_Step | _Group] = [
            _Step(part, common, scale) if isinstance(part, Block) else _Group(part, common, scale)
            for part in run.parts
        ]
        self.w = max([item.w for item in self.items], default=0.0)
        self.h = sum(item.h for item in self.items)
        self.level: int = max([i.level for i in self.items if isinstance(i, _Group)], default=0)
        self.level += self.times > 1

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        top = y
        for item in self.items:
            item.draw(canvas, x, y)
            y += item.h
        if self.times > 1:
            edge = x + max(self.w, _BROAD) / 2 + _BESIDE + 44 * (self.level - 1)
            points = [(edge - 6, top + 4), (edge, top + 4), (edge, y - 4), (edge - 6, y - 4)]
            canvas.line(points)
            label = f"{TIMES} {self.times}"
            canvas.text(edge + 8, (top + y) / 2 + 5, label, size=14, bold=True, anchor="start")

    def steps(self) -> list[_Step]:
        """Every step in it."""
        return [s for i in self.items for s in ([i] if isinstance(i, _Step) else i.steps())]


class _Column(_Piece):
    """A whole stack: entrance, layers, exit."""

    def __init__(
        self, label: str, entrance: list[_Plate], group: _Group, leaves: list[_Plate]
    ) -> None:
        self.label, self.entrance, self.group, self.leaves = label, entrance, group, leaves
        plates = entrance + leaves
        self.w = max([group.w, *(plate.w for plate in plates)])
        self.h = 26 + group.h + sum(plate.h + 16 for plate in plates)
        self.end = 0.0  # where the stream left the last piece

    def beside(self) -> float:
        """Room right of the blocks, for residual branches and brackets."""
        return _BESIDE + 44 * self.group.level

    def draw(self, canvas: Canvas, x: float, y: float) -> None:
        canvas.text(x, y + 10, self.label, size=11.5, soft=True)
        y += 18
        for plate in self.entrance:
            y = self._plate(canvas, plate, x, y)
        self.group.draw(canvas, x, y)
        y += self.group.h
        for plate in self.leaves:
            y = self._plate(canvas, plate, x, y)
        self.end = y

    def _plate(self, canvas: Canvas, plate: _Plate, x: float, y: float) -> float:
        canvas.line([(x, y), (x, y + 14)])
        canvas.head(x, y + 16)
        plate.draw(canvas, x, y + 16)
        return y + 16 + plate.h


def _column(stack: StackOutline, seen: Outline, scale: _Scale) -> _Column:
    group = _Group(stack.run, seen.wrapping, scale)
    last = stack is seen.stacks[-1]
    leaves = [_Plate(stack.norm, (), "other", scale.breadth(seen.width))] if stack.norm else []
    if last:
        answer, *rest = seen.exit.facts
        leaves.append(_Plate(f"head: {answer}", rest, "other", _BROAD))
    embedding, positions = seen.entrance
    facts = (*embedding.facts, f"positions: {', '.join(positions.facts)}")
    entrance = [_Plate("embedding", facts, "other", _BROAD)]
    return _Column(stack.name, entrance, group, leaves)


def _draw_link(canvas: Canvas, columns: list[_Column], axes: list[float]) -> None:
    """The encoder's output on its way to every layer that reads it."""
    encoder, decoder = columns
    trunk, start = axes[1] - decoder.w / 2 - _APART / 2, encoder.end
    readers = [step for step in decoder.group.steps() if step.block.reads_source()]
    for step in readers:
        edge = axes[1] - step.w / 2
        points = [(axes[0], start), (axes[0], start + 16), (trunk, start + 16)]
        canvas.line([*points, (trunk, step.middle), (edge - 6, step.middle)], "fw-link")
        canvas.head(edge - 1, step.middle, right=True, cls="fw-link-point")


def _all_blocks(run: Run) -> list[Block]:
    """Every block, those inside others too."""
    found = []
    for block in run.blocks():
        found.append(block)
        found += [inner for branch in block.branches for inner in _all_blocks(branch)]
    return found
