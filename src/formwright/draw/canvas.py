"""A sheet to draw SVG on: shapes, text that is always escaped, colours for light and dark.

No ids and no scripts, so that several drawings can stand in one page; every class begins with
``fw-`` for the same reason.
"""

from collections.abc import Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from formwright.draw.outline import Kind

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

# kind: (fill, edge) in light, then in dark
_PAINT: dict[Kind, tuple[str, str, str, str]] = {
    "attention": ("#dbe7fd", "#3f74d8", "#1d3157", "#7aa5f7"),
    "cross-attention": ("#e9e0fc", "#8257d6", "#342654", "#b794f6"),
    "feed-forward": ("#fdead0", "#cf7f1f", "#46310f", "#f0b35c"),
    "convolution": ("#d6f1e1", "#2c9161", "#123b29", "#5fcf9a"),
    "parallel": ("#fcf0f4", "#cf5480", "#2a1b24", "#ee8fb0"),
    "other": ("#eceff3", "#7b8594", "#2a303a", "#98a3b3"),
}
# class: (property, light, dark)
_INK = (
    ("fw-sheet", "fill", "#ffffff", "#12161d"),
    ("fw-text", "fill", "#18202c", "#e9edf3"),
    ("fw-soft", "fill", "#566173", "#a9b4c4"),
    ("fw-line", "stroke", "#8c97a7", "#7d899a"),
    ("fw-faint", "stroke", "#c3cad5", "#444e5e"),
    ("fw-point", "fill", "#8c97a7", "#7d899a"),
    ("fw-norm", "fill", "#9aa5b5", "#77839a"),
    ("fw-link", "stroke", "#8257d6", "#b794f6"),
    ("fw-link-point", "fill", "#8257d6", "#b794f6"),
)


def paint(kind: Kind) -> str:
    """The class of a kind of layer."""
    return f"fw-{kind}"


def stylesheet() -> str:
    """The colours of every drawing; a page that holds many of them needs it once."""
    light = [f".{name}{{{prop}:{value}}}" for name, prop, value, _ in _INK]
    dark = [f".{name}{{{prop}:{value}}}" for name, prop, _, value in _INK]
    for kind, (fill, edge, dark_fill, dark_edge) in _PAINT.items():
        light.append(f".{paint(kind)}{{fill:{fill};stroke:{edge}}}")
        dark.append(f".{paint(kind)}{{fill:{dark_fill};stroke:{dark_edge}}}")
    light.append(".fw-panel{fill:#f8f9fb;stroke:#b4bdc9}")
    dark.append(".fw-panel{fill:#1a2029;stroke:#515c6d}")
    shapes = ".fw-line,.fw-faint,.fw-link{fill:none}"
    media = "@media screen and (prefers-color-scheme:dark){" + "".join(dark) + "}"
    return "".join([*light, shapes, media])


class Canvas:
    """Collects shapes; ``finish`` gives the document."""

    def __init__(self) -> None:
        self._shapes: list[str] = []

    def rect(
        self, box: tuple[float, float, float, float], cls: str, *, radius: float = 0, tip: str = ""
    ) -> None:
        """A rectangle (x, y, width, height); ``tip`` shows when the mouse rests on it."""
        x, y, w, h = box
        inside = f"<title>{clean(tip)}</title>" if tip else ""
        self._shapes.append(
            f'<rect class="{cls}" x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}" '
            f'rx="{_n(radius)}">{inside}</rect>'
        )

    def path(self, data: str, cls: str = "fw-line") -> None:
        """A path, in SVG's own letters."""
        self._shapes.append(f'<path class="{cls}" d="{data}" stroke-width="1.4"/>')

    def line(self, points: Sequence[tuple[float, float]], cls: str = "fw-line") -> None:
        """Straight from point to point, corners rounded."""
        self.path(rounded(points), cls)

    def head(self, x: float, y: float, *, right: bool = False, cls: str = "fw-point") -> None:
        """The head of an arrow whose tip is at (x, y), pointing down or right."""
        ends = [(x - 7, y - 4), (x - 7, y + 4)] if right else [(x - 4, y - 7), (x + 4, y - 7)]
        points = " ".join(f"{_n(a)},{_n(b)}" for a, b in [(x, y), *ends])
        self._shapes.append(f'<polygon class="{cls}" points="{points}"/>')

    def plus(self, x: float, y: float) -> None:
        """Where a branch is added to the stream."""
        self._shapes.append(
            f'<circle class="fw-sheet" cx="{_n(x)}" cy="{_n(y)}" r="6"/>'
            f'<circle class="fw-line" cx="{_n(x)}" cy="{_n(y)}" r="6" stroke-width="1.2"/>'
        )
        self.path(f"M{_n(x - 3)} {_n(y)}H{_n(x + 3)}M{_n(x)} {_n(y - 3)}V{_n(y + 3)}")

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: float = 12,
        bold: bool = False,
        soft: bool = False,
        anchor: str = "middle",
    ) -> None:
        """One line; (x, y) is on its base line."""
        weight = ' font-weight="600"' if bold else ""
        self._shapes.append(
            f'<text class="{"fw-soft" if soft else "fw-text"}" x="{_n(x)}" y="{_n(y)}" '
            f'font-size="{size:g}" text-anchor="{anchor}"{weight}>{clean(words)}</text>'
        )

    def finish(self, width: float, height: float, title: str, description: str) -> str:
        """The whole document."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{_n(width)}" '
            f'height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}" '
            f'font-family="{FONT}">'
        )
        return "\n".join(
            [
                head,
                f"<title>{clean(title)}</title>",
                f"<desc>{clean(description)}</desc>",
                f"<style>{stylesheet()}</style>",
                f'<rect class="fw-sheet" width="{_n(width)}" height="{_n(height)}" rx="12"/>',
                *self._shapes,
                "</svg>\n",
            ]
        )


def clean(text: str) -> str:
    """Text that is safe inside XML: escaped, without characters that XML cannot hold."""
    return escape(printable(text), {'"': "&quot;"})


def printable(text: str) -> str:
    """The same text, each character that XML and HTML cannot hold replaced."""
    return text if text.isprintable() else "".join(c if _is_xml(c) else "\ufffd" for c in text)


def rounded(points: Sequence[tuple[float, float]], radius: float = 6) -> str:
    """A path through the points whose corners are arcs as far as there is room."""
    (x, y), data = points[0], f"M{_n(points[0][0])} {_n(points[0][1])}"
    for (cx, cy), (nx, ny) in pairwise(points[1:]):
        r = min(radius, max(abs(cx - x), abs(cy - y)) / 2, max(abs(nx - cx), abs(ny - cy)) / 2)
        ax, ay = cx + r * _sign(x - cx), cy + r * _sign(y - cy)
        bx, by = cx + r * _sign(nx - cx), cy + r * _sign(ny - cy)
        data += f"L{_n(ax)} {_n(ay)}Q{_n(cx)} {_n(cy)} {_n(bx)} {_n(by)}"
        x, y = cx, cy
    return data + f"L{_n(points[-1][0])} {_n(points[-1][1])}"


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """About how broad a line is, on the broad side: fonts differ, boxes must hold them all."""
    return len(text) * size * (0.59 if bold else 0.55)


def _is_xml(c: str) -> bool:
    return c in "\t\n\r" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c > "\uffff"


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
