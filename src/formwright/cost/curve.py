"""Latency against length, drawn: what grows faster than the text shows as a steeper line."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from formwright.draw.canvas import FONT, clean
from formwright.draw.words import shortened

# (light, dark), told apart also without colour by the shape of their marks
_COLOURS = (
    ("#2f6bd8", "#7aa5f7"),
    ("#c9701a", "#f0b35c"),
    ("#2c9161", "#5fcf9a"),
    ("#b23f74", "#ee8fb0"),
    ("#6a4cc4", "#b794f6"),
    ("#5b6675", "#a9b4c4"),
)
_WIDE, _HIGH = 720.0, 440.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 72.0, 24.0, 84.0, 56.0


@dataclass(frozen=True)
class Point:
    """Latency at one length, with the ends of its interval."""

    length: int
    ms: float
    low_ms: float
    high_ms: float


def curve_svg(curves: Mapping[str, Sequence[Point]], title: str, subtitle: str = "") -> str:
    """One line per architecture, both axes logarithmic, intervals as bars."""
    points = [point for curve in curves.values() for point in curve]
    plane = _Plane(points)
    parts = plane.grid()
    for number, (name, curve) in enumerate(curves.items()):
        parts += _line(plane, curve, number % len(_COLOURS), name)
    legend, height = _legend(list(curves))
    return "\n".join([*_head(title, subtitle, height), *parts, *legend, "</svg>\n"])


class _Plane:
    """Where lengths and milliseconds lie on the sheet."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.lengths = sorted({point.length for point in points})
        low, high = min(p.low_ms for p in points), max(p.high_ms for p in points)
        self.marks = _nice_marks(low, high)
        self.low = math.log(min(low, self.marks[0]) * 0.93)
        self.high = math.log(max(high, self.marks[-1]) * 1.07)

    def x(self, length: int) -> float:
        first, last = math.log(self.lengths[0]), math.log(self.lengths[-1])
        share = (math.log(length) - first) / (last - first) if last > first else 0.5
        return _LEFT + 20 + share * (_WIDE - _RIGHT - _LEFT - 40)

    def y(self, ms: float) -> float:
        share = (math.log(ms) - self.low) / (self.high - self.low)
        return _HIGH - _BOTTOM - share * (_HIGH - _BOTTOM - _TOP)

    def grid(self) -> list[str]:
        base, right = _HIGH - _BOTTOM, _WIDE - _RIGHT
        parts = [f'<path class="fwc-axis" d="M{_LEFT} {_TOP}V{base}H{right}"/>']
        for ms in self.marks:
            y = self.y(ms)
            parts.append(f'<path class="fwc-grid" d="M{_LEFT} {y:.1f}H{right}"/>')
            parts.append(_text(_LEFT - 8, y + 4, f"{ms:g}", "end"))
        for length in self.lengths:
            parts.append(_text(self.x(length), base + 18, str(length), "middle"))
        parts.append(_text((_LEFT + right) / 2, base + 40, "length in tokens", "middle", soft=True))
        parts.append(_text(_LEFT - 8, _TOP - 10, "ms", "end", soft=True))
        return parts


def _nice_marks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten around the values; tens only where there are many."""
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if end - begin <= 3 else (1,)
    every = [step * 10.0**power for power in range(begin, end + 1) for step in steps]
    inside = [mark for mark in every if low / 1.5 <= mark <= high * 1.5]
    return inside or [low, high]


def _line(plane: _Plane, curve: Sequence[Point], colour: int, name: str) -> list[str]:
    places = [(plane.x(p.length), plane.y(p.ms)) for p in curve]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    parts = [f'<path class="fwc-line fwc-s{colour}" d="M{path}"/>']
    for point, (x, y) in zip(curve, places, strict=True):
        low, high = plane.y(point.low_ms), plane.y(point.high_ms)
        parts.append(f'<path class="fwc-bar fwc-s{colour}" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
        tip = f"{name}: {point.ms:.3g} ms at {point.length} tokens"
        parts.append(_mark(x, y, colour, tip))
    return parts


def _mark(x: float, y: float, colour: int, tip: str = "") -> str:
    title = f"<title>{clean(tip)}</title>" if tip else ""
    shapes = (
        f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
        f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z",
        f"M{x:.1f} {y - 5:.1f}l5 9h-10z",
        f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z",
    )
    return f'<path class="fwc-f{colour}" d="{shapes[colour % len(shapes)]}">{title}</path>'


def _legend(names: list[str]) -> tuple[list[str], float]:
    parts, y = [], _HIGH + 4
    for number, name in enumerate(names):
        x = _LEFT + (number % 2) * (_WIDE - _LEFT) / 2
        parts.append(_mark(x, y - 4, number % len(_COLOURS)))
        parts.append(_text(x + 12, y, shortened(name, 44), "start"))
        if number % 2 or number == len(names) - 1:
            y += 22
    return parts, y


def _text(x: float, y: float, words: str, anchor: str, *, soft: bool = False) -> str:
    cls = "fwc-soft" if soft else "fwc-text"
    return (
        f'<text class="{cls}" x="{x:.1f}" y="{y:.1f}" font-size="12" '
        f'text-anchor="{anchor}">{clean(words)}</text>'
    )


def _head(title: str, subtitle: str, height: float) -> list[str]:
    def rules(side: int) -> str:
        ink = (("#ffffff", "#18202c", "#566173", "#8c97a7", "#e3e7ee"),
               ("#12161d", "#e9edf3", "#a9b4c4", "#7d899a", "#2b323d"))[side]  # fmt: skip
        found = (
            f".fwc-sheet{{fill:{ink[0]}}}.fwc-text{{fill:{ink[1]}}}.fwc-soft{{fill:{ink[2]}}}"
            f".fwc-axis{{stroke:{ink[3]};fill:none}}.fwc-grid{{stroke:{ink[4]};fill:none}}"
        )
        for number, pair in enumerate(_COLOURS):
            found += f".fwc-s{number}{{stroke:{pair[side]}}}.fwc-f{number}{{fill:{pair[side]}}}"
        return found

    style = (
        rules(0)
        + ".fwc-line{fill:none;stroke-width:2}.fwc-bar{fill:none;stroke-width:1.2}"
        + "@media (prefers-color-scheme:dark){"
        + rules(1)
        + "}"
    )
    size = f'width="{_WIDE:.0f}" height="{height:.0f}" viewBox="0 0 {_WIDE:.0f} {height:.0f}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} font-family="{FONT}">',
        f"<title>{clean(title)}</title>",
        f"<style>{style}</style>",
        f'<rect class="fwc-sheet" width="{_WIDE:.0f}" height="{height:.0f}" rx="12"/>',
        f'<text class="fwc-text" x="28" y="34" font-size="17">{clean(title)}</text>',
        f'<text class="fwc-soft" x="28" y="54" font-size="12">{clean(subtitle)}</text>',
    ]
