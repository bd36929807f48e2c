"""What the page's script reads: the trials, and drawings of some of them.

Both are JSON, deflated and written in base64: drawings of one space are much alike, so a hundred
take less than a hundred kilobytes. The browser inflates the drawings when the first is asked for.
"""

import base64
import zlib
from collections.abc import Sequence
from itertools import chain
from math import isfinite
from typing import Any

from formwright.draw import draw_svg
from formwright.report.html import Safe, packed, tag
from formwright.report.material import Material, thinned
from formwright.report.sections.lineage import lineage_info
from formwright.report.sections.table import value_names
from formwright.report.words import readable
from formwright.trial import Trial

_DRAWINGS = 300  # they take a few milliseconds each, so that a page is made in seconds


def trial_data(material: Material) -> dict[str, Any]:
    """The trials that the page holds, column by column."""
    kept, names = material.kept, value_names(material)
    decisions = list(dict.fromkeys(chain.from_iterable(trial.decisions for trial in kept)))
    front = {trial.number for trial in material.front}
    return {
        "objectives": [[o.name, o.direction] for o in material.objectives],
        "names": names,
        "titles": [readable(name) for name in names],
        "decisions": decisions,
        "words": material.space.option_words() if material.space is not None else {},
        "number": [trial.number for trial in kept],
        "state": [trial.state for trial in kept],
        "rung": [trial.rung for trial in kept],
        "seconds": [float(f"{trial.seconds:.4g}") for trial in kept],
        "steps": [trial.steps for trial in kept],
        "note": [trial.made_by for trial in kept],
        "reason": [trial.reason for trial in kept],
        "parents": [list(trial.parents) for trial in kept],
        "front": [int(trial.number in front) for trial in kept],
        "random": [int(trial.control) for trial in kept],
        "shown": _shown(material),
        "values": [[_short(trial.values.get(name)) for trial in kept] for name in names],
        "choices": [[trial.decisions.get(name) for trial in kept] for name in decisions],
        "notation": [material.notations.get(trial.number, "") for trial in kept],
    }


def drawing_data(material: Material, most: int = _DRAWINGS) -> dict[str, str]:
    """Drawings by trial number: front, ancestors of the best, then others evenly."""
    found = {}
    if material.baseline is not None and material.outcome.baseline is not None:
        found["baseline"] = draw_svg(material.baseline, title=material.outcome.baseline.name)
    for trial in drawn_trials(material, most):
        arch = material.architecture(trial)
        if arch is not None:
            found[str(trial.number)] = draw_svg(arch, title=f"Trial {trial.number}")
    return found


def drawn_trials(material: Material, most: int) -> list[Trial]:
    """Which trials have a drawing."""
    chosen = material.chosen
    line = [step.trial for step in lineage_info(material, chosen)] if chosen else []
    first: Sequence[Trial] = [*line, *thinned(material.front, most)]
    numbers = dict.fromkeys(trial.number for trial in first)
    rest = [trial for trial in material.kept if trial.number not in numbers]
    numbers |= dict.fromkeys(trial.number for trial in thinned(rest, max(0, most - len(numbers))))
    return [material.trials[number] for number in list(numbers)[:most]]


def data_html(name: str, value: Any) -> Safe:
    """Data as an element that browsers do not run."""
    deflated = base64.b64encode(zlib.compress(packed(value), 6)).decode("ascii")
    return tag("script", Safe(deflated), type="application/octet-stream", id=name)


def _shown(material: Material) -> list[int]:
    """Whether each trial that the page holds is one that charts show."""
    compared = {trial.number for trial in material.compared}
    return [int(trial.number in compared) for trial in material.kept]


def _short(value: float | None) -> float | None:
    """Seven digits are more than anyone reads, and half the size. JSON has finite numbers only."""
    return None if value is None or not isfinite(value) else float(f"{value:.7g}")
