"""The line of the winner, member by member: what each mutation changed and what it bought."""

from typing import NamedTuple

from formwright.report.evolution import Member, is_evolution, members_of
from formwright.report.html import Safe, joined, row_html, table_html, tag, trial_button
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import figure, plural, readable
from formwright.trial import Trial

_LONGEST = 60  # generations followed


class Generation(NamedTuple):
    """A member of the line.

    Args:
        trial: Its furthest training.
        change: What was changed from its parent, in words.
        stage: The furthest stage that both it and its parent had; None for the founder.
        value: Its result there.
        before: The parent's result there.
    """

    trial: Trial
    change: str
    stage: int | None
    value: float | None
    before: float | None


def ancestry_info(material: Material) -> list[Generation]:
    """From the winner back to its founder."""
    if not is_evolution(material) or material.chosen is None or not material.objectives:
        return []
    members = members_of(material)
    line: list[Generation] = []
    current = _member(material.chosen, members)
    seen: set[int] = set()
    while current is not None and current.first.number not in seen and len(line) < _LONGEST:
        seen.add(current.first.number)
        parents = current.first.parents
        parent = members.get(parents[0]) if parents else None
        line.append(_generation(current, parent, material.objectives[0].name))
        current = parent
    return line


def _member(trial: Trial, members: dict[int, Member]) -> Member | None:
    """The member that a trial of the finals was entered as, or that it belongs to."""
    if trial.number in members:
        return members[trial.number]
    return next((members[n] for n in trial.parents if n in members), None)


def _generation(member: Member, parent: Member | None, name: str) -> Generation:
    last = member.done[-1] if member.done else member.first
    if parent is None:
        return Generation(last, member.first.origin, None, last.values.get(name), None)
    theirs = {trial.rung: trial for trial in parent.done}
    both = [trial for trial in member.done if trial.rung in theirs]
    if not both:
        return Generation(last, member.first.note, None, last.values.get(name), None)
    ours = both[-1]
    before = theirs[ours.rung].values.get(name)
    return Generation(last, member.first.note, ours.rung, ours.values.get(name), before)


@section("ancestry", "What each mutation bought")
def ancestry_html(material: Material) -> Safe | None:
    """The section."""
    line = ancestry_info(material)
    if len(line) < 2:
        return None
    quality = material.objectives[0]
    said = (
        f"The line of the best found, latest first: {plural(len(line) - 1, 'mutation')}. Parent "
        "and child are compared after the furthest stage that both were trained to."
    )
    heads = ("member", "change", "stage", readable(quality.name), "its parent", "bought")
    rows = []
    for step in line:
        bought = ""
        if step.value is not None and step.before is not None:
            bought = f"{quality.sign * (step.before - step.value):+.4g}"
        cells = (
            step.change,
            "" if step.stage is None else step.stage + 1,
            "" if step.value is None else figure(step.value),
            "" if step.before is None else figure(step.before),
            bought,
        )
        rows.append(row_html(trial_button(step.trial.number, f"trial {step.trial.number}"), cells))
    return joined([tag("p", said, class_="quiet"), table_html(heads, rows)])
