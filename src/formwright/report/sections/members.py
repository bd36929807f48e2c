"""The members of the front: drawn small, in words, with their values."""

from collections.abc import Mapping, Sequence
from math import isfinite, nan
from typing import NamedTuple

from formwright.arch import Architecture
from formwright.draw import outline
from formwright.draw.canvas import paint
from formwright.draw.outline import KINDS
from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material, thinned
from formwright.report.section import section
from formwright.report.words import figure, readable
from formwright.trial import Trial

_MOST = 24  # shown; the others are in the table
_ROOM = 384.0  # of a row of cells


class MembersInfo(NamedTuple):
    """Those that are shown, and how many are not."""

    shown: list[Trial]
    left_out: int


def members_info(material: Material) -> MembersInfo:
    """Members of the front, evenly along it where it is long."""
    shown = thinned(material.front, _MOST)
    return MembersInfo(shown, len(material.front) - len(shown))


@section("members", "The best architectures")
def members_html(material: Material) -> Safe | None:
    """The section."""
    info = members_info(material)
    if not info.shown:
        return None
    said = "Layers from first to last, a cell each. Open one for the whole drawing."
    if info.left_out:
        said += f" {info.left_out:,} more are in the table of trials."
    rows = [_member(material, trial) for trial in info.shown]
    baseline = _baseline(material)
    return joined(
        [
            tag("p", said, class_="quiet"),
            tag("div", baseline, rows, class_="members"),
            _kinds_legend(material, info.shown),
        ]
    )


def cells_svg(arch: Architecture) -> Safe:
    """The layers of an architecture as a row of coloured cells; a gap before the decoder."""
    shapes, x = [], 0.0
    stacks = [stack.cells() for stack in outline(arch).stacks]
    size = min(22.0, _ROOM / max(1, sum(map(len, stacks))))
    for number, blocks in enumerate(stacks):
        x += 8.0 * (number > 0)
        for block in blocks:
            tip = tag("title", ", ".join((block.title, *block.facts)))
            letter = (
                tag("text", block.letter, x=f"{x + size / 2 - 1:.1f}", y=15) if size > 11 else None
            )
            wide = f"{max(1.0, size - 2):.1f}"
            box = tag(
                "rect", class_=paint(block.kind), x=f"{x:.1f}", y=0.5, width=wide, height=21, rx=3
            )
            shapes.append(tag("g", tip, box, letter))
            x += size
    return tag(
        "svg",
        shapes,
        class_="cells",
        viewBox=f"-1 0 {max(x, 1) + 1:.1f} 22",
        preserveAspectRatio="xMinYMid meet",
        role="img",
        aria_label="Layers from first to last",
    )


def _kinds_legend(material: Material, trials: Sequence[Trial]) -> Safe:
    archs = [material.architecture(trial) for trial in trials]
    found = {
        block.kind
        for arch in [*archs, material.baseline]
        if arch is not None
        for stack in outline(arch).stacks
        for block in stack.cells()
    }
    keys = []
    for kind in KINDS:
        if kind in found:
            box = tag("rect", class_=paint(kind), width=12, height=12, rx=3)
            swatch = tag("svg", box, class_="swatch", viewBox="-1 -1 14 14", aria_hidden="true")
            keys.append(tag("li", swatch, kind))
    return tag("ul", keys, class_="legend")


def _member(material: Material, trial: Trial) -> Safe:
    made_by = tag("small", trial.made_by) if trial.made_by else None
    title = tag("span", f"trial {trial.number}", made_by, class_="number")
    notation, arch = material.notations.get(trial.number, ""), material.architecture(trial)
    return _details(title, values_html(material, trial.values), arch, notation, trial.number)


def _baseline(material: Material) -> Safe | None:
    baseline = material.outcome.baseline
    if baseline is None:
        return None
    title = tag("span", baseline.name, class_="number")
    values, arch = values_html(material, baseline.values), material.baseline
    return _details(title, values, arch, baseline.notation, "baseline", class_="base")


def _details(
    title: Safe,
    values: list[Safe],
    arch: Architecture | None,
    words: str,
    draw: object,
    **more: str,
) -> Safe:
    """An architecture in a row of cells, which opens to its drawing and its notation."""
    cells = None if arch is None else cells_svg(arch)
    head = tag("summary", title, tag("span", values, class_="values"), cells)
    drawing = tag("div", class_="drawing", data_place="drawing")
    notation = notation_html(words) if words else None
    inside = tag("div", drawing, notation, class_="inside")
    return tag("details", head, inside, data_draw=draw, **more)


def values_html(material: Material, values: Mapping[str, float]) -> list[Safe]:
    """The objectives, as far as they are known."""
    return [
        tag("span", tag("small", readable(o.name)), " ", tag("b", figure(values[o.name])))
        for o in material.objectives
        if isfinite(values.get(o.name, nan))
    ]


def notation_html(words: str) -> Safe:
    """A notation that can be copied."""
    copy = tag("button", "Copy", type="button", class_="copy", aria_label="Copy the notation")
    return tag("div", tag("code", words), copy, class_="notation")
