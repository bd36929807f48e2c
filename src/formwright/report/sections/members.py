"""The members of the front: drawn small, in words, with their values."""

from collections.abc import Mapping
from math import isfinite, nan
from typing import NamedTuple

from formwright.arch import Architecture
from formwright.report.cells import broadest, cells_svg, kinds_legend, told_apart
from formwright.report.html import Safe, copy_html, joined, tag
from formwright.report.material import Material, thinned
from formwright.report.section import section
from formwright.report.words import figure, readable
from formwright.trial import Trial

_MOST = 24  # shown; the others are in the table


class Member(NamedTuple):
    """One architecture of the list, and what tells it from the others."""

    trial: Trial | None  # None for the baseline
    name: str
    arch: Architecture | None
    apart: list[str]


class MembersInfo(NamedTuple):
    """Those that are shown, what all of them have in common, and how many are not shown."""

    shown: list[Trial]
    left_out: int
    members: list[Member]
    common: list[str]


def members_info(material: Material) -> MembersInfo:
    """Members of the front, evenly along it where it is long, with what distinguishes each."""
    shown = thinned(material.front, _MOST)
    rows: list[tuple[Trial | None, str, Architecture | None]] = [
        (trial, f"trial {trial.number}", material.architecture(trial)) for trial in shown
    ]
    if material.outcome.baseline is not None:
        rows.insert(0, (None, material.outcome.baseline.name, material.baseline))
    drawn = [arch for _, _, arch in rows if arch is not None]
    common, apart = told_apart(drawn)
    told = iter(apart)
    members = [Member(t, name, arch, next(told) if arch else []) for t, name, arch in rows]
    return MembersInfo(shown, len(material.front) - len(shown), members, common)


@section("members", "The best architectures")
def members_html(material: Material) -> Safe | None:
    """The section."""
    info = members_info(material)
    if not info.shown:
        return None
    drawn = [member.arch for member in info.members if member.arch is not None]
    said = "Open one for the whole drawing."
    if drawn:
        said = (
            "Layers from first to last, a cell each: its height is how broad the layer is inside, "
            f"the number its heads, inner channels or kernel. {said}"
        )
    if info.left_out:
        said += f" {info.left_out:,} more are in the table of trials."
    common = tag("p", tag("b", "All of them: "), "; ".join(info.common)) if info.common else None
    tallest = broadest(drawn)
    rows = [_row(material, member, tallest) for member in info.members]
    return joined(
        [
            tag("p", said, class_="quiet"),
            common,
            tag("div", rows, class_="members"),
            kinds_legend(drawn) if drawn else None,
        ]
    )


def _row(material: Material, member: Member, tallest: int) -> Safe:
    """An architecture in a row of cells, which opens to its drawing and its notation."""
    trial, baseline = member.trial, material.outcome.baseline
    if trial is not None:
        about = trial.made_by
        values, words = trial.values, material.notations.get(trial.number, "")
    else:
        assert baseline is not None
        about, values, words = "baseline", baseline.values, baseline.notation
    small = tag("small", about) if about else None
    cells = None if member.arch is None else cells_svg(member.arch, tallest)
    apart = tag("span", " · ".join(member.apart), class_="apart") if member.apart else None
    head = tag(
        "summary",
        tag("span", member.name, small, class_="number"),
        tag("span", values_html(material, values), class_="values"),
        tag("span", cells, apart, class_="look"),
    )
    drawing = tag("div", class_="drawing", data_place="drawing")
    inside = tag("div", drawing, copy_html(words) if words else None, class_="inside")
    draw: object = "baseline" if trial is None else trial.number
    return tag("details", head, inside, data_draw=draw, class_="base" if trial is None else None)


def values_html(material: Material, values: Mapping[str, float]) -> list[Safe]:
    """The objectives, as far as they are known."""
    return [
        tag("span", tag("small", readable(o.name)), " ", tag("b", figure(values[o.name])))
        for o in material.objectives
        if isfinite(values.get(o.name, nan))
    ]
