"""What a supernet selected, beside the architecture it is held against."""

import base64
from typing import NamedTuple

from formwright.arch import Architecture
from formwright.draw import draw_svg
from formwright.report.cells import cells_svg
from formwright.report.html import Safe, copy_html, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.sections.members import values_html
from formwright.report.supernet import FOLDER
from formwright.trial import Trial


class SelectedInfo(NamedTuple):
    """The two, each with its name, notation and values."""

    trial: Trial
    found: Architecture
    baseline: Architecture | None


def selected_info(material: Material) -> SelectedInfo | None:
    """What the headline speaks of, else the first trial; None where there was no supernet."""
    if material.folder is None or not (material.folder / FOLDER).is_dir() or not material.trials:
        return None
    trial = material.trials[material.outcome.chosen or 0]
    arch = material.architecture(trial)
    return None if arch is None else SelectedInfo(trial, arch, material.baseline)


@section("selected", "What the supernet selected")
def selected_html(material: Material) -> Safe | None:
    """The section."""
    info = selected_info(material)
    if info is None:
        return None
    trial = info.trial
    words = trial.made_by or "what was found"
    found = _one(material, f"Trial {trial.number}: {words}", info.found, dict(trial.values))
    other = None
    if info.baseline is not None and material.outcome.baseline is not None:
        named = material.outcome.baseline
        other = _one(material, named.name, info.baseline, dict(named.values))
    notation = material.notations.get(trial.number, "")
    return joined(
        [
            tag("div", found, other, class_="twin selected"),
            copy_html(notation) if notation else None,
        ]
    )


def _one(material: Material, title: str, arch: Architecture, values: dict[str, float]) -> Safe:
    shown = values_html(material, values)
    # As an image, so that nothing in it can do anything, and the page needs no style for it.
    coded = base64.b64encode(draw_svg(arch, title=title).encode()).decode("ascii")
    picture = tag("img", src=f"data:image/svg+xml;base64,{coded}", alt=f"Drawing of {title}")
    return tag(
        "figure",
        tag("figcaption", title),
        tag("p", shown, class_="values") if shown else None,
        cells_svg(arch),
        tag("details", tag("summary", "The drawing"), tag("div", picture, class_="drawing"),
            open=True),
    )  # fmt: skip
