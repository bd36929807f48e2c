"""Drawings for the terminal: boxes, brackets around repeats, and strips to compare models."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from formwright.arch.architecture import Architecture
from formwright.draw.outline import Block, Fact, Kind, Outline, Run, StackOutline, outline
from formwright.draw.words import TIMES, wrapped
from formwright.errors import InputError

_NARROWEST = 40
_DEEPEST = 4  # boxes in boxes that are drawn; what lies below is only counted
_LONGEST_NAME = 20
_ASCII = str.maketrans(f"┌┐└┘├┤┬┴─│▼►{TIMES}…╴", "++++++++-|v>x~-")
_COLOUR: dict[Kind, int] = {  # of the 256 that terminals know
    "attention": 75,
    "cross-attention": 141,
    "feed-forward": 215,
    "convolution": 78,
    "parallel": 211,
    "other": 250,
}


def draw_text(arch: Architecture, width: int = 80, *, ascii: bool = False) -> str:
    """The architecture as boxes, from the embedding down to the head.

    Args:
        arch: What to draw.
        width: Columns that no line exceeds.
        ascii: Only plain characters, for terminals that know no others.

    >>> from formwright import parse
    >>> "attention" in draw_text(parse("sf in gpt2(64) for frame(256, 32, lm)"))
    True
    """
    if width < _NARROWEST:
        raise InputError(f"width={width} is too narrow to draw in; give at least {_NARROWEST}.")
    seen = outline(arch)
    tables = [_Table.of_facts(seen.entrance)]
    tables += [_Table.of_stack(stack, seen.wrapping) for stack in seen.stacks]
    tables.append(_Table.of_facts((seen.exit,)))
    linked = len(seen.stacks) > 1
    brackets = max(sum(table.level_widths()) for table in tables)
    sheet = _Sheet(width - brackets - 4 * linked, tables)
    lines = [*_heading(seen, width), ""]
    for number, table in enumerate(tables):
        last = number + 1 == len(tables)
        begins_link = linked and number == 1
        lines += sheet.box(table, linked, begins_link, flows=not last and not begins_link)
    text = "\n".join(_cut(line.rstrip(), width) for line in lines) + "\n"
    return _plain(text) if ascii else text


def compare_text(
    archs: Mapping[str, Architecture] | Sequence[Architecture],
    width: int = 80,
    *,
    ascii: bool = False,
    colour: bool = False,
) -> str:
    """Architectures as rows of letters, one per layer, so that their order can be compared.

    Args:
        archs: By name, or in a row: then they are called A, B, C.
        width: Columns that no line exceeds.
        ascii: Only plain characters.
        colour: Paint the letters by kind, with terminal colours.
    """
    if not isinstance(archs, Mapping):
        archs = {chr(ord("A") + i): arch for i, arch in enumerate(archs)}
    if not archs:
        raise InputError("There is nothing to compare; give at least one architecture.")
    if width < _NARROWEST:
        raise InputError(f"width={width} is too narrow to draw in; give at least {_NARROWEST}.")
    names = [_fitted(_printable(name), _LONGEST_NAME).rstrip() for name in archs]
    rows = [_cells(outline(arch)) for arch in archs.values()]
    margin = max(map(_columns, names)) + 2
    lines: list[str] = []
    longest = max(map(len, rows))
    gap = " " if 2 * longest - 1 <= width - margin else ""  # long rows close up before they break
    per_line = (width - margin) // (1 + len(gap))
    for start in range(0, max([len(row) for row in rows] + [1]), per_line):
        lines.append(" " * margin + _ruler(start, min(per_line, longest - start), 1 + len(gap)))
        for name, row in zip(names, rows, strict=True):
            shown = row[start : start + per_line]
            if shown or not start:
                letters = gap.join(_painted(cell, colour) for cell in shown)
                lines.append((_fitted(name, margin) + letters).rstrip())
        lines.append("")
    lines += _legend(names, rows, width)
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return _plain(text) if ascii else text


# --- boxes -------------------------------------------------------------------------------


@dataclass
class _Row:
    label: str
    facts: tuple[str, ...]
    linked: bool = False  # the encoder's output comes in here


@dataclass
class _Bracket:
    first: int
    last: int
    times: int
    level: int


@dataclass
class _Table:
    """The rows of one box and the brackets beside them."""

    rows: list[_Row] = field(default_factory=list)
    brackets: list[_Bracket] = field(default_factory=list)
    title: str = ""

    @classmethod
    def of_facts(cls, facts: Sequence[Fact]) -> "_Table":
        return cls([_Row(fact.label, fact.facts) for fact in facts])

    @classmethod
    def of_stack(cls, stack: StackOutline, common: str) -> "_Table":
        table = cls(title=stack.name)
        table._series(stack.run, common)
        if not table.rows:
            table.rows.append(_Row("no layers", ()))
        if stack.norm:
            table.rows.append(_Row(f"   {stack.norm}", ()))
        return table

    def level_widths(self) -> list[int]:
        """Columns right of the box, of the brackets of each level."""
        levels = 1 + max([bracket.level for bracket in self.brackets], default=-1)
        return [
            max(len(str(b.times)) for b in self.brackets if b.level == level) + 5
            for level in range(levels)
        ]

    def _series(self, run: Run, common: str) -> int:
        """Add the parts of a stack; the result is how deep brackets nest in it."""
        height = 0
        for part in run.parts:
            if isinstance(part, Block):
                self._layer(part, common)
                continue
            first = len(self.rows)
            level = self._series(part, common)
            self.brackets.append(_Bracket(first, len(self.rows) - 1, part.times, level))
            height = max(height, level + 1)
        return height

    def _layer(self, block: Block, common: str) -> None:
        label = f"{block.letter}  {block.title}"
        self.rows.append(_Row(label, block.said(common), block.reads_source()))
        self._inside(block, "   ", 1)

    def _inside(self, block: Block, indent: str, depth: int) -> None:
        """What a block holds, as a tree below it."""
        branches: list[tuple[str, Block | Run]] = []
        for run in block.branches:
            if len(block.branches) == 1 and run.times == 1:  # a series: its parts hang here
                branches += [_counted(part) for part in run.parts]
            else:
                branches.append(_counted(run))
        if branches and depth > _DEEPEST:
            self.rows.append(_Row(f"{indent}└ …", (f"{block.count()} layers inside",)))
            return
        for number, (times, part) in enumerate(branches):
            last = number + 1 == len(branches)
            turn, below = ("└ ", "  ") if last else ("├ ", "│ ")
            self._branch(indent + turn + times, part, indent + below, depth)

    def _branch(self, start: str, part: Block | Run, indent: str, depth: int) -> None:
        if isinstance(part, Block):
            self.rows.append(_Row(start + part.title, part.said(None)))
            self._inside(part, indent, depth + 1)
            return
        block = Block("other", "", f"series of {len(part.parts)}", (), 0, branches=(part,))
        self.rows.append(_Row(start + block.title, ()))
        self._inside(block, indent, depth + 1)


def _counted(part: Block | Run) -> tuple[str, Block | Run]:
    """A part and how often it occurs, a run of one block being that block."""
    if isinstance(part, Block):
        return "", part
    times = f"{part.times} {TIMES} " if part.times > 1 else ""
    if len(part.parts) == 1 and isinstance(part.parts[0], Block):
        return times, part.parts[0]
    return times, Run(part.parts)


class _Sheet:
    """Boxes of one common breadth, so that they stand in line."""

    def __init__(self, room: int, tables: Sequence[_Table]) -> None:
        rows = [row for table in tables for row in table.rows]
        self.label = min(max(len(row.label) for row in rows), room // 2) + 2
        facts = max(len(", ".join(row.facts)) for row in rows)
        self.inner = min(max(self.label + facts, 40), room - 4)

    def box(self, table: _Table, linked: bool, begins: bool, flows: bool) -> list[str]:
        """The lines of a box; ``begins``: a link leaves it, ``flows``: an arrow goes on."""
        lines: list[str] = []
        spans: list[tuple[int, _Row]] = []
        for row in table.rows:
            spans.append((len(lines), row))
            lines += self._row(row)
        starts = [at for at, _ in spans] + [len(lines)]
        right = _bracket_lines(table, starts)
        body = [f"│ {line} │{tail}" for line, tail in zip(lines, right, strict=True)]
        rule = "─" * (self.inner + 2)
        name = f"─ {table.title} " if table.title else ""
        middle = len(rule) // 2
        end = rule[:middle] + "┬" + rule[middle + 1 :] if flows else rule
        top, bottom = f"┌{name}{rule[len(name) :]}┐", f"└{end}┘"
        arrow = [" " * (middle + 1) + "▼"] if flows else []
        if not linked:
            return [top, *body, bottom, *arrow]
        if begins:
            return [f"    {x}" for x in (top, *body)] + [" ┌──" + "┴" + end + "┘", " │"]
        into = [at + 1 for at, row in spans if row.linked]
        return [_link(i, into) + x for i, x in enumerate([top, *body, bottom, *arrow])]

    def _row(self, row: _Row) -> list[str]:
        room = self.inner - self.label
        texts = wrapped(row.facts, room)
        first = _fitted(row.label, self.label)
        indent = " " * self.label
        return [
            _fitted((indent if number else first) + text, self.inner)
            for number, text in enumerate(texts)
        ]


def _bracket_lines(table: _Table, starts: list[int]) -> list[str]:
    """What stands right of each line of a box: ``┐``, ``├ x 6``, ``┘``."""
    widths = table.level_widths()
    lines = [[" " * width for width in widths] for _ in range(starts[-1])]
    for bracket in table.brackets:
        first, last = starts[bracket.first], starts[bracket.last + 1] - 1
        width, label = widths[bracket.level], f" {TIMES} {bracket.times}"
        middle = (first + last) // 2
        for line in range(first, last + 1):
            mark = "┐" if line == first else "┘" if line == last else "│"
            if line == middle:
                mark = ("├" if first < line < last else "╴" if first == last else mark) + label
            lines[line][bracket.level] = (" " + mark).ljust(width)
    return ["".join(line) for line in lines]


def _link(line: int, into: list[int]) -> str:
    """The encoder's output, running down beside the decoder."""
    if not into or line > into[-1]:
        return "    "
    if line in into:
        return " └─►" if line == into[-1] else " ├─►"
    return " │  "


def _heading(seen: Outline, width: int) -> list[str]:
    lines = [seen.heading]
    if any(stack.depth for stack in seen.stacks):
        lines.append(seen.notation)
    if seen.wrapping:
        lines.append(f"around each layer: {seen.wrapping}")
    return [_cut(line, width) for line in lines]


# --- strips ------------------------------------------------------------------------------


def _cells(seen: Outline) -> list[Block | None]:
    """One per layer; ``None`` stands between encoder and decoder."""
    cells: list[Block | None] = []
    for number, stack in enumerate(seen.stacks):
        cells += [None] * (number > 0)
        cells += stack.cells()
    return cells


def _painted(cell: Block | None, colour: bool) -> str:
    if cell is None:
        return "│"
    if not colour:
        return cell.letter
    return f"\x1b[38;5;{_COLOUR[cell.kind]}m{cell.letter}\x1b[0m"


def _ruler(start: int, cells: int, columns: int) -> str:
    """Numbers above every fourth layer (1, 5, 9, ...), each layer ``columns`` wide."""
    marks = (f"{start + at + 1:<{4 * columns}}" for at in range(0, cells, 4))
    return "".join(marks)[: columns * max(0, cells)]


def _legend(names: list[str], rows: list[list[Block | None]], width: int) -> list[str]:
    """What the letters mean, and how many of each a model has."""
    titles: dict[str, str] = {}
    for row in rows:
        for cell in row:
            if cell is not None:
                titles.setdefault(cell.letter, _LETTER.get(cell.letter, cell.kind))
    lines = wrapped([f"{letter} {title}" for letter, title in titles.items()], width)
    margin = max(map(_columns, names)) + 2
    for name, row in zip(names, rows, strict=True):
        tally = Counter(cell.letter for cell in row if cell is not None)
        counted = " + ".join(f"{tally[letter]} {letter}" for letter in titles if letter in tally)
        total = f"{sum(tally.values())} layers"
        line = _fitted(name, margin) + total + (f" = {counted}" if counted else "")
        lines.append(_cut(line, width))
    return lines


_LETTER = {
    "s": "self-attention",
    "m": "cross-attention",
    "f": "feed-forward",
    "c": "convolution",
    "p": "parallel",
    "g": "gated linear unit",
    "l": "linear map",
    "n": "norm",
    "i": "identity",
}


# --- characters --------------------------------------------------------------------------


def _columns(text: str) -> int:
    """Columns a text takes in a terminal."""
    return sum(
        0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
    )


def _cut(text: str, room: int) -> str:
    if _columns(text) <= room:
        return text
    while text and _columns(text) > room - 1:
        text = text[:-1]
    return text + "…"


def _fitted(text: str, room: int) -> str:
    """Cut or filled up to exactly ``room`` columns."""
    text = _cut(text, room)
    return text + " " * (room - _columns(text))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)


def _plain(text: str) -> str:
    text = text.replace(" → ", " > ").translate(_ASCII)
    return "".join(c if c in "\n\x1b" or " " <= c <= "~" else "?" for c in text)
