"""How blocks shrank: what was left of each bin after every round.

NAS-BERT, https://arxiv.org/abs/2105.14444, keeps the better half of each bin, round by round.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from formwright.report.chart import Cells, Sheet, grid_svg, on_each_sheet
from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.supernet import FOLDER
from formwright.report.words import figure, plural
from formwright.trace import Trace, is_number

_SHEETS = (Sheet("wide", 860, 0), Sheet("narrow", 350, 0))  # as high as there are bins
_LABEL = {"wide": 110, "narrow": 64}
_ROW, _BELOW = 22, 26
_GRID = Cells(high=_ROW, gap=0.5, corner=2, line=15, room=26)


class Bin(NamedTuple):
    """One range of cost."""

    number: int
    left: list[int]  # before the first round, and after each
    best: float | None  # the least loss of the last round that judged it


class ShrinkingInfo(NamedTuple):
    """One block of the chain."""

    block: int  # from 1
    lost: int  # in no bin, since size and latency did not agree
    bins: list[Bin]  # the largest first


def shrinking_info(material: Material) -> list[ShrinkingInfo]:
    """One for each block that shrank."""
    if material.folder is None:
        return []
    trace = Trace(material.folder / FOLDER)
    begun = {line["block"]: line for line in trace.lines("binned") if _counts(line)}
    found = []
    for block in sorted(b for b in begun if isinstance(b, int)):
        rounds = {
            line["round"]: line
            for line in trace.lines("shrunk")
            if line.get("block") == block and isinstance(line.get("round"), int) and _counts(line)
        }
        ordered = [rounds[number] for number in sorted(rounds)]
        first = _counts(begun[block])
        bins = [_bin(name, first[name], ordered) for name in first]
        lost = begun[block].get("lost")
        found.append(
            ShrinkingInfo(
                block + 1,
                lost if isinstance(lost, int) else 0,
                sorted(bins, key=lambda each: -each.number),
            )
        )
    return found


def _bin(name: str, first: int, rounds: list[dict[str, Any]]) -> Bin:
    left, best = [first], None
    for line in rounds:
        left.append(_counts(line).get(name, left[-1]))
        known = line.get("best")
        value = known.get(name) if isinstance(known, dict) else None
        best = float(value) if is_number(value) else best  # type: ignore[arg-type]
    return Bin(int(name), left, best)


def _counts(line: Mapping[str, Any]) -> dict[str, int]:
    """How many each bin holds; nothing where that cannot be read."""
    bins = line.get("bins")
    pairs = bins.items() if isinstance(bins, dict) else ()
    return {n: c for n, c in pairs if n.isdecimal() and isinstance(c, int) and c >= 0}


def shrinking_svg(info: ShrinkingInfo, sheet: Sheet) -> Safe:
    """A row for each bin, a column for each round; a cell is the fuller the more is left."""
    label, rounds = _LABEL[sheet.name], max(len(each.left) for each in info.bins)
    wide = min(64.0, (sheet.width - label - 70) / max(1, rounds))
    shapes: list[Safe] = []
    for number, each in enumerate(info.bins):
        y = _ROW * number
        name = f"bin {each.number}"
        shapes.append(tag("text", name, x=label - 8, y=y + 15, text_anchor="end"))
        for column, count in enumerate(each.left):
            tip = f"{name}, {'at first' if not column else f'after round {column}'}: {count:,} left"
            shapes.append(
                _GRID.cell(
                    (label + wide * column, y, wide),
                    count / max(1, each.left[0]),
                    class_="film",
                    tip=tip,
                    words=figure(count),
                )
            )
        if each.best is not None:
            place = label + wide * rounds + 8
            shapes.append(tag("text", figure(each.best, 3), x=f"{place:.1f}", y=y + 15))
    bottom = _ROW * len(info.bins)
    for column in range(rounds):
        x = f"{label + wide * (column + 0.5):.1f}"
        shapes.append(tag("text", column, x=x, y=bottom + 17, text_anchor="middle"))
    said = f"Block {info.block}: what was left of each bin over {plural(rounds - 1, 'round')}."
    return grid_svg(sheet, bottom + _BELOW, shapes, said)


@section("shrinking", "How the blocks shrank")
def shrinking_html(material: Material) -> Safe | None:
    """The section."""
    found = shrinking_info(material)
    if not found:
        return None
    said = (
        "Blocks by bins of size and latency, the largest on top. Each round trains what is left, "
        "then drops the worse half of each; the number at the right is the least loss at the end."
    )
    parts = [tag("p", said, class_="quiet")]
    for info in found:
        whole = info.lost + sum(each.left[0] for each in info.bins)
        share = f"; {info.lost:,} of {whole:,} lay in no bin" if info.lost else ""
        left = sum(each.left[-1] for each in info.bins)
        parts.append(tag("h3", f"Block {info.block}: {left:,} left{share}"))
        parts.append(on_each_sheet([shrinking_svg(info, sheet) for sheet in _SHEETS]))
    return joined(parts)
