"""What the page's script reads: the trials, and drawings and layers of some of them.

All are JSON, deflated and written in base64: drawings of one space are much alike, so a hundred
take less than a hundred kilobytes. The browser inflates the drawings when the first is asked for.
"""

import base64
import zlib
from collections.abc import Sequence
from itertools import chain
from math import isfinite
from typing import Any

from formwright.draw import draw_svg, outline
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
        "counts": _flags(kept, material.counting),
        "limits": dict(material.limits),
        "chosen": material.chosen.number if material.chosen else None,
        "baseline": _baseline(material, names),
        "shown": _flags(kept, material.compared),
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


def layer_data(material: Material, most: int = _DRAWINGS) -> dict[str, Any]:
    """Layers of the trials that have a drawing, so that any two can be compared layer by layer.

    Returns:
        ``blocks``: letter and words of every kind of layer, once; ``trials``: of each trial, and of
        ``baseline``, ``facts`` about the whole and ``stacks``, lists of numbers of blocks.
    """
    numbers: dict[tuple[str, str], int] = {}
    trials: dict[str, dict[str, Any]] = {}
    archs = [(str(t.number), material.architecture(t)) for t in drawn_trials(material, most)]
    for key, arch in [("baseline", material.baseline), *archs]:
        if arch is None:
            continue
        seen = outline(arch)
        stacks = [
            [
                numbers.setdefault(
                    (block.letter, ", ".join((block.title, *block.facts))), len(numbers)
                )
                for block in stack.cells()
            ]
            for stack in seen.stacks
        ]
        facts = [("kind", seen.family), ("width", str(seen.width))]
        facts += [("layers", " + ".join(str(stack.depth) for stack in seen.stacks))]
        facts += [(fact.label, ", ".join(fact.facts)) for fact in (*seen.entrance, seen.exit)]
        facts += [("residual branches", seen.wrapping or "differ")]
        trials[key] = {"facts": facts, "stacks": stacks}
    return {"blocks": list(numbers), "trials": trials}


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


def _flags(kept: Sequence[Trial], among: Sequence[Trial]) -> list[int]:
    """Whether each trial that the page holds is one of some others."""
    numbers = {trial.number for trial in among}
    return [int(trial.number in numbers) for trial in kept]


def _baseline(material: Material, names: Sequence[str]) -> dict[str, Any] | None:
    """The baseline as it was evaluated beside the front."""
    baseline = material.outcome.baseline
    if baseline is None:
        return None
    alike = baseline.at(material.front[0].rung) if material.front else baseline
    values = {name: _short(alike.values.get(name)) for name in names}
    return {"name": baseline.name, "notation": baseline.notation, "values": values}


def _short(value: float | None) -> float | None:
    """Seven digits are more than anyone reads, and half the size. JSON has finite numbers only."""
    return None if value is None or not isfinite(value) else float(f"{value:.7g}")
