"""Trials that failed, by reason."""

import re
from pathlib import Path
from typing import NamedTuple

from formwright.report.html import Safe, joined, table_html, tag, trial_button
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.words import plural

_REASONS = 30
_NUMBERS = 12
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Failure(NamedTuple):
    """A reason and the trials it holds for; reasons that differ in numbers only are one."""

    reason: str  # of the first of them
    numbers: list[int]


def failures_info(material: Material) -> list[Failure]:
    """Reasons, the most frequent first."""
    found: dict[str, Failure] = {}
    for trial in material.trials:
        if trial.state == "failed":
            reason = trial.reason or "No reason was recorded."
            key = _NUMBER.sub("#", reason)
            found.setdefault(key, Failure(reason, [])).numbers.append(trial.number)
    return sorted(found.values(), key=lambda failure: -len(failure.numbers))


@section("failures", "Failed trials")
def failures_html(material: Material) -> Safe | None:
    """The section."""
    failures = failures_info(material)
    if not failures:
        return None
    total = sum(len(failure.numbers) for failure in failures)
    said = f"{plural(total, 'trial')} failed, for {plural(len(failures), 'reason')}."
    if len(failures) > _REASONS:
        said += f" The {_REASONS} most frequent are shown."
    held = {trial.number for trial in material.kept}
    rows = []
    for failure in failures[:_REASONS]:
        few = [trial_button(n, n) if n in held else n for n in failure.numbers[:_NUMBERS]]
        spaced = [item for number in few for item in (number, " ")]
        more = len(failure.numbers) - len(few)
        rest = tag("span", f"and {more:,} more", class_="quiet") if more else None
        count = tag("td", f"{len(failure.numbers):,}", class_="count")
        rows.append(tag("tr", count, tag("td", failure.reason), tag("td", spaced, rest)))
    table = table_html(("trials", "reason", "which"), rows, "reasons")
    return joined([tag("p", said, class_="quiet"), table, _traceback(material, failures[0])])


def _traceback(material: Material, failure: Failure) -> Safe | None:
    """Where the whole story of the most frequent failure is, if it was kept."""
    if material.folder is None:
        return None
    place = Path("trials") / f"{failure.numbers[0]:06d}" / "error.txt"
    if not (material.folder / place).exists():
        return None
    said = f"The traceback of trial {failure.numbers[0]} is in {material.folder / place}."
    return tag("p", said, class_="quiet")
