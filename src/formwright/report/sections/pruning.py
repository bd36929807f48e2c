"""Which options were still alive after each stage of pruning: a strip, a column for each stage.

Figure 3 of DARTFormer, https://arxiv.org/abs/2210.00641
"""

from collections.abc import Sequence
from typing import NamedTuple

from formwright.draw.words import shortened
from formwright.report.chart import Cells, Sheet, grid_svg, on_each_sheet
from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.supernet import Seen, trace_of
from formwright.report.words import figure, plural
from formwright.trace import Stage

_SHEETS = (Sheet("wide", 860, 0), Sheet("narrow", 350, 0))  # as high as there are options
_LABEL = {"wide": 190, "narrow": 112}
_SCORE = 58  # room for the last score, right of the strip
_ROW, _BELOW = 22, 26
_GRID = Cells(high=_ROW, gap=0.5, corner=2, line=15, room=18)


class Kind(NamedTuple):
    """Options of one decision that are called alike."""

    words: str
    total: int
    alive: list[int]  # at each stage
    score: float | None  # the mean of the last one that each got


class PruningInfo(NamedTuple):
    """One decision; kinds that lasted longest first."""

    name: str
    kinds: list[Kind]
    stages: list[int]  # their numbers


def pruning_info(trace: Seen) -> list[PruningInfo]:
    """One for each decision that was pruned."""
    names = dict.fromkeys(name for stage in trace.stages for name in stage.alive)
    counts = {name: _count(trace.stages, name) for name in names}
    found = []
    for group in trace.groups(counts):
        for name in group.names:
            kinds: dict[str, list[int]] = {}
            for index, words in enumerate(group.options):
                kinds.setdefault(words, []).append(index)
            rows = [_kind(trace.stages, name, w, set(options)) for w, options in kinds.items()]
            rows.sort(key=lambda kind: [-count for count in reversed(kind.alive)])
            found.append(PruningInfo(name, rows, [stage.stage for stage in trace.stages]))
    return found


def _count(stages: Sequence[Stage], name: str) -> int:
    return 1 + max((i for stage in stages for i in stage.alive.get(name, ())), default=-1)


def _kind(stages: Sequence[Stage], name: str, words: str, options: set[int]) -> Kind:
    alive: list[int] = []
    last: dict[int, float] = {}
    for stage in stages:
        alive.append(len(options & set(stage.alive.get(name, ()))))
        last |= {o: s for o, s in stage.worth.get(name, {}).items() if o in options}
    score = sum(last.values()) / len(last) if last else None
    return Kind(words, len(options), alive, score)


def pruning_svg(info: PruningInfo, sheet: Sheet) -> Safe:
    """A cell is the fuller the more of its kind are alive."""
    left = _LABEL[sheet.name]
    scored = any(kind.score is not None for kind in info.kinds)
    right = sheet.width - (_SCORE if scored else 4)
    wide = min(48.0, (right - left) / max(1, len(info.stages)))
    end, bottom = left + wide * len(info.stages), _ROW * len(info.kinds)
    shapes = []
    for number, kind in enumerate(info.kinds):
        y = _ROW * number
        shapes.append(tag("text", _label(kind, left), x=left - 8, y=y + 15, text_anchor="end"))
        shapes += [
            _cell(info, kind, column, (left + wide * column, y, wide))
            for column in range(len(info.stages))
        ]
        if kind.score is not None:
            words = figure(kind.score, 3)
            shapes.append(tag("text", words, x=f"{end + 8:.1f}", y=y + 15, text_anchor="start"))
    every = max(1, round(30 / wide))
    for column in range(0, len(info.stages), every):
        x = f"{left + wide * (column + 0.5):.1f}"
        shapes.append(tag("text", info.stages[column], x=x, y=bottom + 17, text_anchor="middle"))
    if scored:
        shapes.append(tag("text", "score", x=f"{end + 8:.1f}", y=bottom + 17, text_anchor="start"))
    said = f"{info.name}: what was alive at each of {plural(len(info.stages), 'stage')}"
    label = f"{said}. Left at the end: {_left(info)}."
    return grid_svg(sheet, bottom + _BELOW, shapes, said, label)


def _cell(info: PruningInfo, kind: Kind, column: int, place: tuple[float, float, float]) -> Safe:
    alive = kind.alive[column]
    return _GRID.cell(
        place,
        alive / kind.total if alive else 1.0,
        class_="film" if alive else "film gone",
        tip=f"stage {info.stages[column]}, {kind.words}: {alive} of {kind.total} alive",
        words=str(alive) if kind.total > 1 and alive else "",
    )


def _label(kind: Kind, room: int) -> str:
    times = f" \u00d7{kind.total}" if kind.total > 1 else ""
    most = int((room - 8) / 6.6) - len(times)
    words = kind.words.removesuffix(" attention")  # which all of them are
    return shortened(words, most) + times


def _left(info: PruningInfo) -> str:
    left = [kind for kind in info.kinds if kind.alive and kind.alive[-1]]
    return ", ".join(
        f"{kind.words} \u00d7{kind.alive[-1]}" if kind.total > 1 else kind.words for kind in left
    )


@section("pruning", "What was pruned when")
def pruning_html(material: Material) -> Safe | None:
    """The section."""
    trace = trace_of(material)
    found = pruning_info(trace)
    if not found:
        return None
    said = (
        "What was still alive when each stage began, from the first stage to the last; what lasted "
        "longest is on top. A score is what was lost without it."
    )
    parts = [tag("p", said, class_="quiet")]
    for info in found:
        parts.append(tag("h3", f"{info.name}: {_left(info)}"))
        parts.append(on_each_sheet([pruning_svg(info, sheet) for sheet in _SHEETS]))
    lines = [tag("li", s.words, value=s.stage) for s in trace.stages if s.words]
    if lines:
        parts.append(tag("details", tag("summary", "Stage by stage"), tag("ol", lines)))
    return joined(parts)
