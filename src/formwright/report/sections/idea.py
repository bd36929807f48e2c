"""The winner as maths and as a drawing, beside the seed it came from."""

import base64
from typing import NamedTuple

from formwright.arch import Architecture
from formwright.draw.explain import Explained, explained
from formwright.draw.graph import graphs_in
from formwright.report.evolution import is_evolution
from formwright.report.html import Safe, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.trial import SEED, Trial

_MOST = 6  # graph-shaped layers shown of each model


class IdeaInfo(NamedTuple):
    """Graph-shaped layers of the winner and of the seed."""

    trial: Trial
    found: list[Explained]
    seed: list[Explained]


def idea_info(material: Material) -> IdeaInfo | None:
    """What was found, where it has graph-shaped layers."""
    trial = material.chosen
    if trial is None or not is_evolution(material):
        return None
    found = _explained(material.architecture(trial))
    first = next((t for t in material.trials if t.origin == SEED), None)
    seed = material.architecture(first) if first is not None else material.baseline
    return IdeaInfo(trial, found, _explained(seed)) if found else None


def _explained(arch: Architecture | None) -> list[Explained]:
    return explained(arch)[:_MOST] if arch is not None and graphs_in(arch) else []


@section("idea", "The idea")
def idea_html(material: Material) -> Safe | None:
    """The section."""
    info = idea_info(material)
    if info is None:
        return None
    number = info.trial.number
    said = f"As code to copy: formwright explain '{material.name}#{number}' --code found.py"
    sides = [_side(f"Trial {number}", info.found)]
    if info.seed:
        sides.append(_side("what it was begun with, or is held against", info.seed))
    return joined([tag("div", sides, class_="twin selected idea"), tag("p", said, class_="quiet")])


def _side(title: str, layers: list[Explained]) -> Safe:
    parts: list[Safe] = [tag("figcaption", title)]
    for layer in layers:
        lines = "\n".join([layer.maths.plain, *layer.maths.sizes])
        parts.append(tag("pre", lines))
        coded = base64.b64encode(layer.svg.encode()).decode("ascii")
        picture = tag("img", src=f"data:image/svg+xml;base64,{coded}", alt=f"Drawing: {layer.name}")
        drawing = tag("div", picture, class_="drawing")
        parts.append(tag("details", tag("summary", f"Drawing of {layer.name}"), drawing))
        latex = tag("pre", layer.maths.latex)
        parts.append(tag("details", tag("summary", "LaTeX"), latex))
    return tag("figure", parts)
