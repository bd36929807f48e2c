"""Where a supernet wants which kind of layer: its probabilities, slot by slot, as a heat map.

Figure 2 of the PAR paper, https://arxiv.org/abs/2009.04534
"""

from typing import NamedTuple

from formwright.draw.words import shortened
from formwright.report.chart import SHEETS, Cells, Sheet, grid_svg, on_each_sheet
from formwright.report.html import Safe, joined, row_html, table_html, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.supernet import Group, Seen, place_of, trace_of

_LABEL = {"wide": 120, "narrow": 86}  # room for the names of options
_CELL, _BELOW = 30, 46
_GRID = Cells(high=_CELL, gap=1, corner=3, line=20, room=30)


class SharesInfo(NamedTuple):
    """The last probabilities of decisions that are alike."""

    group: Group
    step: int
    shares: list[tuple[float, ...]]  # for each decision, one per option
    chosen: list[int]  # the largest of each

    @property
    def order(self) -> str:
        """What is derived, a letter for each slot; empty where options are no layers."""
        return "".join(self.group.letters[i] for i in self.chosen) if self.group.letters else ""


def shares_info(trace: Seen) -> list[SharesInfo]:
    """One for each group of decisions that take one option each."""
    if not trace.looks:
        return []
    last = trace.looks[-1]
    counts = {name: len(row) for name, row in last.values.items() if len(row) > 1}
    found = []
    for group in trace.groups(counts):
        shares = [tuple(last.values[name]) for name in group.names]
        whole = all(abs(sum(row) - 1) < 0.01 and min(row) >= 0 for row in shares)
        if whole and (group.single or trace.space is None):
            chosen = [max(range(len(row)), key=row.__getitem__) for row in shares]
            found.append(SharesInfo(group, last.step, shares, chosen))
    return found


def shares_svg(info: SharesInfo, sheet: Sheet) -> Safe:
    """Columns are slots from first to last, rows are options; what is taken has a frame."""
    left = _LABEL[sheet.name]
    most = int((left - 8) / 6.4)  # characters that there is room for
    wide = min(64.0, (sheet.width - left - 4) / len(info.shares))
    bottom = _CELL * len(info.group.options)
    shapes = [
        tag("text", shortened(words, most), x=left - 8, y=_CELL * i + 20, text_anchor="end")
        for i, words in enumerate(info.group.options)
    ]
    for column, (name, row) in enumerate(zip(info.group.names, info.shares, strict=True)):
        x = left + wide * column
        for i, share in enumerate(row):
            shapes.append(_cell(info, (name, i, share), (x, _CELL * i, wide), column))
        middle = f"{x + wide / 2:.1f}"
        if info.order:
            letter = info.order[column]
            shapes.append(
                tag("text", letter, class_="letter", x=middle, y=bottom + 18, text_anchor="middle")
            )
        if column % max(1, round(34 / wide)) == 0:
            place = place_of(name)[:6]
            shapes.append(tag("text", place, x=middle, y=bottom + 36, text_anchor="middle"))
    return grid_svg(sheet, bottom + _BELOW, shapes, _description(info))


def _cell(
    info: SharesInfo, what: tuple[str, int, float], place: tuple[float, float, float], column: int
) -> Safe:
    name, option, share = what
    return _GRID.cell(
        place,
        max(0.03, share),
        class_="heat taken" if info.chosen[column] == option else "heat",
        tip=f"{name}, {info.group.options[option]}: {share:.1%}",
        words=f"{share:.0%}",
    )


def _description(info: SharesInfo) -> str:
    what = f"Probability of each option in each of {len(info.shares)} places"
    return f"{what}; derived: {info.order}." if info.order else f"{what}."


@section("shares", "Where each layer is wanted")
def shares_html(material: Material) -> Safe | None:
    """The section."""
    found = shares_info(trace_of(material))
    if not found:
        return None
    parts: list[Safe | None] = []
    for info in found:
        said = (
            f"How likely the supernet finds each option after {info.step:,} steps, from the first "
            "place to the last. A frame marks what is taken."
        )
        order = tag("p", "Derived: ", tag("code", info.order, class_="order"))
        parts += [
            tag("p", said, class_="quiet") if not parts else None,
            tag("h3", info.group.title) if len(found) > 1 else None,
            order if info.order else None,
            on_each_sheet([shares_svg(info, sheet) for sheet in SHEETS]),
            _numbers(info),
        ]
    return joined(parts)


def _numbers(info: SharesInfo) -> Safe:
    rows = [
        row_html(name, [f"{share:.1%}" for share in row])
        for name, row in zip(info.group.names, info.shares, strict=True)
    ]
    table = table_html(("", *info.group.options), rows)
    return tag("details", tag("summary", "The numbers"), table)
