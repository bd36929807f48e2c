"""Charts as SVG: scales, ticks, and a frame to put dots and lines in.

Dots without a name of their own are one path of zero-length strokes with round ends, so twenty
thousand of them are a few hundred kilobytes and drawn at once. Where the mouse is nearest to is
found by the page's script from ``data-chart``: the place of the frame and what its edges mean.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from formwright.report.html import Safe, joined, tag
from formwright.report.words import figure

Points = Iterable[tuple[float, float]]


@dataclass(frozen=True)
class Scale:
    """Values to places from 0 to 1.

    Args:
        low: Value at 0.
        high: Value at 1, above ``low``.
        log: Whether equal ratios are equally far apart.
    """

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies."""
        if self.log:
            return (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)

    def holds(self, value: float) -> bool:
        """Whether a value lies within."""
        return self.low <= value <= self.high

    def ticks(self, wanted: int) -> list[float]:
        """About so many round values within."""
        if self.log:
            return self._log_ticks(wanted)
        step = _round_step((self.high - self.low) / wanted)
        first = ceil(self.low / step - 1e-9)
        count = floor(self.high / step + 1e-9) - first + 1
        if count < 2 and wanted < 12:  # one tick is no scale
            return self.ticks(wanted * 2)
        return [(first + i) * step for i in range(count)]

    def _log_ticks(self, wanted: int) -> list[float]:
        decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
        for parts in ((1, 2, 5), (1, 3), (1,)):
            found = [p * 10.0**d for d in decades for p in parts if self.holds(p * 10.0**d)]
            if len(found) <= wanted + 2:
                return found
        every = ceil(len(found) / wanted)
        return found[::every]


def scale_of(values: Sequence[float], must: Sequence[float] = ()) -> Scale:
    """A scale that shows all of ``must`` and nearly all of the values, with room around them.

    It is logarithmic where the largest is a hundred times the smallest or more. Stragglers, the
    last fiftieth at either end, may fall outside, so that they do not squeeze the others.
    """
    ordered = sorted(v for v in values if isfinite(v))
    spare = len(ordered) // 50
    core = [*(ordered[spare : len(ordered) - spare] or ordered), *must]
    if not core:
        return Scale(0.0, 1.0)
    low, high = min(core), max(core)
    if low == high:
        room = abs(low) * 0.1 or 1.0
        return Scale(low - room, high + room)
    if low > 0 and high / low >= 100:
        room_ratio = (high / low) ** 0.04
        return Scale(low / room_ratio, high * room_ratio, log=True)
    room = (high - low) * 0.05
    return Scale(low - room, high + room)


@dataclass(frozen=True)
class Sheet:
    """How large a chart is; every chart is drawn for broad and for narrow screens."""

    name: str
    width: int
    height: int


SHEETS = (Sheet("wide", 860, 440), Sheet("narrow", 350, 330))
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 12, 46


class Chart:
    """A frame with two axes. Later shapes lie above earlier ones."""

    def __init__(self, sheet: Sheet, x: Scale, y: Scale) -> None:
        self.sheet, self.x, self.y = sheet, x, y
        self.width, self.height = sheet.width - _LEFT - _RIGHT, sheet.height - _TOP - _BOTTOM
        self.shapes: list[Safe] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a pair of values is on the sheet."""
        across = _LEFT + self.width * self.x.place(x)
        return round(across, 1), round(_TOP + self.height * (1 - self.y.place(y)), 1)

    def dots(self, points: Points, cls: str) -> None:
        """Many small marks of one kind; those outside the frame are left out."""
        inside = (self.at(x, y) for x, y in points if self.x.holds(x) and self.y.holds(y))
        data = "".join(f"M{x:g} {y:g}h0" for x, y in inside)
        if data:
            self.shapes.append(tag("path", class_=f"dots {cls}", d=data))

    def line(self, points: Points, cls: str) -> None:
        """Straight from point to point."""
        places = [self.at(x, y) for x, y in points]
        if len(places) > 1:
            data = "M" + "L".join(f"{x:g} {y:g}" for x, y in places)
            self.shapes.append(tag("path", class_=f"line {cls}", d=data))

    def mark(
        self, point: tuple[float, float], cls: str, words: str, trial: int, *, large: bool = False
    ) -> None:
        """A dot that can be reached by keyboard and opens a trial."""
        x, y = self.at(*point)
        self.shapes.append(
            tag(
                "circle",
                class_=f"mark {cls}",
                cx=f"{x:g}",
                cy=f"{y:g}",
                r=8 if large else 5,
                tabindex=0,
                role="button",
                aria_label=words,
                data_trial=trial,
            )
        )

    def diamond(self, point: tuple[float, float], cls: str, words: str) -> None:
        """A mark of another shape."""
        x, y = self.at(*point)
        corners = " ".join(f"{x + a:g},{y + b:g}" for a, b in ((0, -8), (8, 0), (0, 8), (-8, 0)))
        shape = tag("polygon", class_=cls, points=corners)
        self.shapes.append(tag("g", tag("title", words), shape))

    def rule(self, axis: str, value: float, words: str) -> None:
        """A limit as a line across the frame, with words beside it; none where it lies outside."""
        scale = self.x if axis == "x" else self.y
        if not scale.holds(value):
            return
        x, y = self.at(value if axis == "x" else self.x.low, self.y.low if axis == "x" else value)
        across = f"M{x:g} {_TOP}v{self.height}" if axis == "x" else f"M{_LEFT} {y:g}h{self.width}"
        place = (x - 5, _TOP + 12) if axis == "x" else (_LEFT + self.width - 4, y - 5)
        self.shapes.append(tag("path", class_="line limit", d=across))
        self.shapes.append(
            tag("text", words, class_="limit", x=f"{place[0]:g}", y=f"{place[1]:g}",
                text_anchor="end")
        )  # fmt: skip

    def svg(self, labels: tuple[str, str], description: str, *, data: str = "") -> Safe:
        """The whole drawing.

        Args:
            labels: Of the axes.
            description: For those who cannot see it.
            data: What the script is to find nearest points of: ``pareto``, ``values``.
        """
        frame = {"left": _LEFT, "top": _TOP, "width": self.width, "height": self.height}
        for name, scale in (("x", self.x), ("y", self.y)):
            frame[name] = [scale.low, scale.high, int(scale.log)]  # type: ignore[assignment]
        return tag(
            "svg",
            tag("title", description),
            self._axes(),
            tag("text", labels[0], class_="label", x=_LEFT + self.width / 2,
                y=self.sheet.height - 6, text_anchor="middle"),
            tag("text", labels[1], class_="label", text_anchor="middle",
                transform=f"translate(13 {_TOP + self.height / 2:g}) rotate(-90)"),
            self.shapes,
            class_=f"chart {self.sheet.name}",
            viewBox=f"0 0 {self.sheet.width} {self.sheet.height}",
            role="group",
            aria_label=description,
            data_chart=json.dumps(frame) if data else None,
            data_kind=data or None,
        )  # fmt: skip

    def _axes(self) -> Safe:
        shapes, bottom = [], _TOP + self.height
        for value in self.x.ticks(max(3, self.width // 90)):
            x = self.at(value, self.y.low)[0]
            shapes.append(tag("path", class_="grid", d=f"M{x:g} {_TOP}V{bottom}"))
            shapes.append(tag("text", tick(value), x=f"{x:g}", y=bottom + 17, text_anchor="middle"))
        for value in self.y.ticks(max(3, self.height // 55)):
            y = self.at(self.x.low, value)[1]
            shapes.append(tag("path", class_="grid", d=f"M{_LEFT} {y:g}H{_LEFT + self.width}"))
            shapes.append(tag("text", tick(value), x=_LEFT - 7, y=f"{y + 4:g}", text_anchor="end"))
        shapes.append(tag("path", class_="axis", d=f"M{_LEFT} {_TOP}V{bottom}h{self.width}"))
        return tag("g", shapes, class_="axes", aria_hidden="true")


def tick(value: float) -> str:
    """A round number as short as it can be said."""
    words = figure(value, 6)
    if "e" in words:
        digits, power = words.split("e")
        return f"{float(digits):g}e{int(power)}"
    unit = words[-1] if words[-1].isalpha() else ""
    digits = words.removesuffix(unit)
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + unit


def legend(*entries: tuple[str, str] | None) -> Safe:
    """What each kind of mark means: (class, words)."""
    shown = [entry for entry in entries if entry]
    keys = [
        tag("li", tag("span", class_=f"key {cls}", aria_hidden="true"), words)
        for cls, words in shown
    ]
    return tag("ul", keys, class_="legend")


def stairs(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """The points of a line that stays level until the next point, up to ``end``."""
    found: list[tuple[float, float]] = []
    for x, y in points:
        if found:
            found.append((x, found[-1][1]))
        found.append((x, y))
    return [*found, (end, found[-1][1])] if found else []


def figure_html(title: str, drawn: "list[Safe]", keys: Sequence[tuple[str, str]] = ()) -> Safe:
    """Drawings for all sheets with a title above and, where there are keys, a legend below."""
    caption = tag("figcaption", title) if title else None
    return tag("figure", caption, on_each_sheet(drawn), legend(*keys) if keys else None)


def on_each_sheet(draw: "list[Safe]") -> Safe:
    """The drawings for all sheets; the style sheet shows the one that fits."""
    return tag("div", joined(draw), class_="plot")


@dataclass(frozen=True)
class Cells:
    """How the cells of a grid are drawn: their height, the gap around them, their corners.

    Args:
        high: Height with the gap.
        gap: Left and right of a cell.
        corner: Radius of its corners.
        line: Where writing stands, from the top.
        room: Breadth from which on there is room for writing.
    """

    high: float
    gap: float
    corner: float
    line: float
    room: float

    def cell(
        self,
        place: tuple[float, float, float],
        strength: float,
        *,
        class_: str,
        tip: str,
        words: str = "",
    ) -> Safe:
        """A cell at x and y, so wide; the stronger, the fuller, with words over it if they fit."""
        x, y, wide = place
        box = tag(
            "rect",
            class_=class_,
            x=f"{x + self.gap:.1f}",
            y=y + 1,
            width=f"{max(0.8, wide - 2 * self.gap):.1f}",
            height=self.high - 2,
            rx=self.corner,
            fill_opacity=f"{strength:.3f}",
        )
        text = None
        if words and wide >= self.room:
            over = "over" if strength > 0.65 else "in"
            middle = f"{x + wide / 2:.1f}"
            text = tag("text", words, class_=over, x=middle, y=y + self.line, text_anchor="middle")
        return tag("g", tag("title", tip), box, text)


def grid_svg(sheet: Sheet, height: float, shapes: list[Safe], title: str, label: str = "") -> Safe:
    """Cells and words as a drawing; ``label`` says more than its title to those who cannot see."""
    return tag(
        "svg",
        tag("title", title),
        shapes,
        class_=f"chart {sheet.name}",
        viewBox=f"0 0 {sheet.width} {height}",
        role="img",
        aria_label=label or title,
    )


def _round_step(rough: float) -> float:
    power = 10.0 ** floor(log10(rough))
    return next(part * power for part in (1, 2, 2.5, 5, 10) if part * power >= rough * (1 - 1e-9))
