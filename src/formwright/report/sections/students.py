"""Students of a teacher: quality against cost, what blocks cost the answers, what was kept."""

from typing import Any, NamedTuple

from formwright.draw.words import shortened
from formwright.report.chart import (
    SHEETS,
    Cells,
    Chart,
    Sheet,
    figure_html,
    grid_svg,
    on_each_sheet,
    scale_of,
)
from formwright.report.html import Safe, joined, row_html, table_html, tag, trial_button
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import figure, readable
from formwright.trial import Objective

_LABEL = {"wide": 110, "narrow": 80}  # room for the names of blocks
_CELL, _BELOW = 26, 40
_GRID = Cells(high=_CELL, gap=1, corner=3, line=17, room=34)
_FAINT = 0.03  # of a cell that loses nothing


class StudentsInfo(NamedTuple):
    """What a compression kept for the page."""

    quality: Objective
    rows: list[dict[str, Any]]
    limits: list[dict[str, str]]
    places: list[dict[str, Any]]
    scores: list[list[float]]
    found: dict[str, Any]
    examples: list[dict[str, str]]

    def blocks(self) -> list[str]:
        """Names of all alternatives, in the order of their first place."""
        return list(dict.fromkeys(name for p in self.places for name in p["alternatives"]))

    def strength(self, place: int, name: str) -> float | None:
        """How much an alternative loses, from 0 to 1 of the most; None where it is not offered."""
        names = self.places[place]["alternatives"]
        if name not in names:
            return None
        most = max((max(row) for row in self.scores), default=0.0)
        return (self.scores[place][names.index(name)] / most) ** 0.5 if most > 0 else 0.0


def students_info(material: Material) -> StudentsInfo | None:
    """None where nothing was compressed."""
    known = material.phase("students")
    if not isinstance(known, dict):
        return None
    return StudentsInfo(
        Objective(**known["quality"]),
        known["rows"],
        known["limits"],
        known["places"],
        known["scores"],
        known["found"],
        known["examples"],
    )


def _is_found(row: dict[str, Any]) -> bool:
    """Whether the search found it; it may have been taught longer then."""
    return str(row["role"]).startswith("found")


def students_svg(info: StudentsInfo, sheet: Sheet) -> Safe:
    """Quality over latency: the teacher, what was found for each limit, the simple students."""
    timed = [row for row in info.rows if row["latency"]]
    chart = Chart(
        sheet,
        scale_of([row["latency"] for row in timed], [row["latency"] for row in timed]),
        scale_of([row["quality"] for row in timed], [row["quality"] for row in timed]),
    )
    found = sorted((r["latency"], r["quality"]) for r in timed if _is_found(r))
    chart.line(found, "front")
    for row in timed:
        kind = "front" if _is_found(row) else "random"
        said = f"{row['role']}: {info.quality.name} {row['quality']:.4g}, {row['latency']:.3g} ms"
        point = (row["latency"], row["quality"])
        if row["trial"] is None:
            chart.diamond(point, "baseline", said)
        else:
            chart.mark(point, kind, said, row["trial"], large=kind == "front")
    return chart.svg(("latency, ms", readable(info.quality.name)), "Quality against latency")


def scores_svg(info: StudentsInfo, sheet: Sheet) -> Safe:
    """Columns are places from first to last, rows are blocks; the fuller, the more is lost.

    A frame marks what the first student has.
    """
    left, blocks = _LABEL[sheet.name], info.blocks()
    wide = min(54.0, (sheet.width - left - 4) / max(1, len(info.places)))
    taken = next(iter(info.found.values()))["names"] if info.found else []
    shapes = [
        tag("text", shortened(name, int((left - 8) / 6.4)), x=left - 8, y=_CELL * i + 17,
            text_anchor="end")
        for i, name in enumerate(blocks)
    ]  # fmt: skip
    for column, place in enumerate(info.places):
        for row, name in enumerate(blocks):
            strength = info.strength(column, name)
            if strength is None:
                continue
            lost = info.scores[column][place["alternatives"].index(name)]
            own = bool(taken) and taken[column] == name
            shapes.append(
                _GRID.cell(
                    (left + wide * column, _CELL * row, wide),
                    max(_FAINT, strength),
                    class_="heat taken" if own else "heat",
                    tip=f"layer {column}, {place['kind']}, {name}: loses {lost:.4g}",
                    words=f"{lost:.2g}",
                )
            )
        if column % max(1, round(34 / wide)) == 0:
            middle = f"{left + wide * (column + 0.5):.1f}"
            y = _CELL * len(blocks) + 18
            shapes.append(tag("text", str(column), x=middle, y=y, text_anchor="middle"))
    height = _CELL * len(blocks) + _BELOW
    return grid_svg(sheet, height, shapes, "What each block does to the teacher's answers")


@section("students", "Students of the teacher")
def students_html(material: Material) -> Safe | None:
    """The section."""
    info = students_info(material)
    if info is None:
        return None
    keys = [("front", "found under a limit"), ("random", "simple"), ("baseline", "teacher")]
    return joined(
        [
            figure_html(
                "Quality against latency", [students_svg(info, s) for s in SHEETS], keys
            ),
            _table(info),
            tag("h3", "What blocks cost"),
            tag("p", "How far the answers move from the teacher's when one block takes the place "
                "of its own. A frame marks what the first student has.", class_="quiet"),
            on_each_sheet([scores_svg(info, sheet) for sheet in SHEETS]),
            _survived(info),
            _examples(info),
        ]
    )  # fmt: skip


def _table(info: StudentsInfo) -> Safe:
    words = {limit["text"]: limit["words"] for limit in info.limits}
    heads = ("", "limit", readable(info.quality.name), "95 %", "ms", "times as fast", "parameters",
             "same answers")  # fmt: skip
    whole = info.rows[0]["latency"]
    rows = []
    for row in info.rows:
        name = row["role"]
        shown = name if row["trial"] is None else trial_button(row["trial"], name)
        took, same = row["latency"], row["agreement"]
        rows.append(
            row_html(
                shown,
                [
                    words.get(row["limit"], ""),
                    figure(row["quality"]),
                    f"{figure(row['low'])} to {figure(row['high'])}",
                    figure(took) if took else "",
                    f"{whole / took:.2f}" if took and whole else "",
                    f"{row['params']:,.0f}" if row["params"] else "",
                    f"{same:.1%}" if same is not None else "",
                ],
            )
        )
    return table_html(heads, rows, "figures tight")


def _survived(info: StudentsInfo) -> Safe | None:
    """Which layers of the teacher every student has, and how the choice was reached."""
    if not info.found:
        return None
    words = {limit["text"]: limit["words"] for limit in info.limits}
    rows = []
    for text, known in info.found.items():
        rounds = ", ".join(f"{turn['found']:.3g}" for turn in known["rounds"])
        rows.append(row_html(words.get(text, text), [*known["names"], rounds]))
    heads = ("", *(f"{i} {p['kind']}" for i, p in enumerate(info.places)), "divergence by round")
    return joined([tag("h3", "Which layers survive"), table_html(heads, rows)])


def _examples(info: StudentsInfo) -> Safe | None:
    if not info.examples:
        return None
    rows = [row_html(row["given"][:200], [row["teacher"], row["student"]]) for row in info.examples]
    heads = ("text", "teacher", "student")
    return joined([tag("h3", "Teacher and student side by side"), table_html(heads, rows)])
