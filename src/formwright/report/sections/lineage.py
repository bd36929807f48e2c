"""Where the best came from: its line of parents, and what changed at each step."""

from typing import NamedTuple

from formwright.arch import diff
from formwright.report.html import Safe, joined, tag, trial_button
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import figure, plural, readable
from formwright.space.space import changed_decisions
from formwright.trial import Trial

_LONGEST = 60  # generations followed
_CHANGES = 6  # said for each


class Generation(NamedTuple):
    """One step of the line.

    Args:
        trial: Who.
        parent: The parent nearest to it, who comes next in the line; None for the founder.
        others: Its further parents.
        changes: What changed from that parent, in words.
    """

    trial: Trial
    parent: Trial | None
    others: tuple[int, ...]
    changes: list[str]


def lineage_info(material: Material, trial: Trial) -> list[Generation]:
    """From a trial back to its founder, always by the parent that is nearest to it."""
    line: list[Generation] = []
    seen: set[int] = set()
    current: Trial | None = trial
    while current is not None and current.number not in seen and len(line) < _LONGEST:
        seen.add(current.number)
        known = [material.trials[n] for n in current.parents if 0 <= n < len(material.trials)]
        told = [(changes(material, parent, current), parent) for parent in known]
        said, parent = min(told, key=lambda pair: len(pair[0]), default=([], None))
        others = tuple(t.number for t in known if parent is not None and t.number != parent.number)
        line.append(Generation(current, parent, others, said))
        current = parent
    return line


def changes(material: Material, before: Trial, after: Trial) -> list[str]:
    """What differs between two trials: of their architectures, else of their decisions.

    Where that is too much to be read, what the strategy said of it.
    """
    a, b = material.architecture(before), material.architecture(after)
    if a is None or b is None:
        return changed_decisions(before.decisions, after.decisions)
    told = [str(change) for change in diff(a, b)]
    said = after.note if after.parents == (before.number,) else ""
    return [said] if said and len(told) > _CHANGES else told


@section("lineage", "Lineage of the best")
def lineage_html(material: Material) -> Safe | None:
    """The section: the line of the trial that the headline speaks of."""
    best = material.chosen
    if best is None or not best.parents:
        return None
    line = lineage_info(material, best)
    said = f"Trial {best.number} and {plural(len(line) - 1, 'generation')} before it, latest first."
    rows = [_generation(material, step) for step in line]
    return joined([tag("p", said, class_="quiet"), tag("ol", rows, class_="lineage")])


def _generation(material: Material, step: Generation) -> Safe:
    trial = step.trial
    known = [o for o in material.objectives if o.name in trial.values]
    values = ", ".join(f"{readable(o.name)} {figure(trial.values[o.name])}" for o in known)
    button = trial_button(trial.number, f"trial {trial.number}")
    origin = tag("span", trial.origin, class_="quiet") if trial.origin else None
    head = tag("p", button, f" {values}", origin)
    if step.parent is None:
        return tag("li", head, tag("p", "founder: made from no other", class_="quiet"))
    told = [tag("li", change) for change in step.changes[:_CHANGES]]
    if len(step.changes) > _CHANGES:
        told.append(tag("li", f"and {len(step.changes) - _CHANGES:,} more", class_="quiet"))
    if not told:
        told.append(tag("li", "the same architecture", class_="quiet"))
    crossed = "".join(f", crossed with trial {other}" for other in step.others)
    source = tag("p", f"from trial {step.parent.number}{crossed}:", class_="quiet")
    return tag("li", head, source, tag("ul", told, class_="changes"))
