"""The model to take, as a card: drawing, figures with unit and target, and how to use it."""

import base64
import re
import shlex
from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

from formwright.arch import Architecture, diff
from formwright.draw import draw_svg
from formwright.report.cells import cells_svg, kinds_legend
from formwright.report.html import Safe, copy_html, joined, table_html, tag, trial_button
from formwright.report.judge import EXACT, Comparison, Sized, comparisons
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.where import where_words
from formwright.report.words import between, figure, measured, plural, readable, size_words
from formwright.trial import Trial

# How a training went, which tells nothing of how two models compare.
_HOW = {"seeds", "rate", "epochs", "tokens_per_second", "step_seconds", "processor_share"}
_HOW |= {"slope", "slope_error", "latency_ratio", "cooldown_steps", "step_ratio"}
_CHANGES = 8  # said of what differs from the baseline
_SAMPLE = 600  # characters of a text
_PLAIN = re.compile(r"[\w@%+=:,./~#-]+")


class Fact(NamedTuple):
    """A figure of the card: what it is, its value with unit, and what one must know of it."""

    name: str
    value: str
    remark: str


class CardInfo(NamedTuple):
    """What the card says."""

    trial: Trial
    name: str
    announced: bool  # False: only the best so far
    facts: list[Fact]
    where: str  # target and machine of the latency; empty where none was measured
    compared: list[Comparison]
    changes: list[str]  # from the baseline to it
    commands: list[tuple[str, str]]
    samples: list[dict[str, str]]


def card_info(material: Material) -> CardInfo | None:
    """The model to take, else the best so far; None where nothing has a result."""
    trial = material.taken or material.chosen
    if trial is None or not trial.done:
        return None
    baseline = material.outcome.baseline
    compared = []
    if baseline is not None and not (trial.rival and trial.note == baseline.name):
        compared = comparisons(trial, baseline, material.objectives, _HOW)
    name = trial.note if trial.rival else f"trial {trial.number}"
    said = material.phase("samples")
    return CardInfo(
        trial,
        name,
        material.taken is not None,
        _facts(material, trial),
        where_words(material) if "latency" in trial.values else "",
        compared,
        _changes(material, trial),
        commands(material, trial),
        [row for row in said if isinstance(row, dict)] if isinstance(said, list) else [],
    )


@section("recommended", "The model to take")
def card_html(material: Material) -> Safe | None:
    """The section."""
    info = card_info(material)
    if info is None:
        return None
    arch = material.architecture(info.trial)
    if info.announced:
        said = f"This is {info.name}, the model that the result speaks of."
        if info.trial.rival:
            said = f"This is {info.name}: designed by hand, and nothing that was found is better."
    else:
        said = f"Nothing is announced yet; this is the best so far, {info.name}."
    return joined(
        [
            tag("p", said, " ", trial_button(info.trial.number, "Everything about it")),
            tag(
                "div",
                tag("div", _facts_html(info), class_="facts"),
                tag("div", _drawing(info, arch), class_="sketch"),
                class_="card",
            ),
            tag("h3", "How to use it") if info.commands else None,
            [_command(what, words) for what, words in info.commands],
            _comparison_table(info, material) if info.compared else None,
            _changes_html(info, material),
            samples_html(info.samples),
        ]
    )


def commands(material: Material, trial: Trial) -> list[tuple[str, str]]:
    """What a user would do next with a model, as they would type it."""
    if material.folder is None:
        return []
    run, task = quoted(str(material.folder)), quoted(str(material.meta.get("task") or ""))
    best, found = material.folder / "best", []
    if (best / "task.json").exists() and material.taken is not None:
        found.append(("ask it", f"formwright predict {run} 'a text of yours'"))
    if (best / "model.safetensors").exists() and material.taken is not None:
        found.append(("take it elsewhere", f"formwright export {run} --to onnx --out exported"))
    if task and not trial.rival:
        one = quoted(f"{material.folder}#{trial.number}")
        found.append(("train it longer", f"formwright train {one} --task {task} --time 30m"))
    if material.meta.get("recipe") == "usual-search":
        minutes = 30 + int(material.worked // 60)  # a budget is that of all sessions
        found.append(("go on searching", f"formwright resume {run} --budget {minutes}m"))
    elif material.meta.get("recipe") and not material.outcome.headline:
        found.append(("go on searching", f"formwright resume {run}"))
    return found


def quoted(words: str) -> str:
    """A word for a shell; left as it is where that is safe, so that ``~`` still means home."""
    return words if _PLAIN.fullmatch(words) and not words.startswith("#") else shlex.quote(words)


def samples_html(rows: list[dict[str, str]]) -> Safe | None:
    """What the model says, as it says it."""
    if not rows:
        return None
    shown = [
        tag(
            "div",
            tag("p", "given", class_="quiet"),
            tag("pre", str(row.get("given", ""))[-_SAMPLE:]),
            tag("p", "it says", class_="quiet"),
            tag("pre", str(row.get("said", "")).rstrip()[:_SAMPLE] or "(nothing but white space)"),
            class_="sample",
        )
        for row in rows
    ]
    return joined([tag("h3", "What it says"), tag("div", shown, class_="samples")])


def _facts(material: Material, trial: Trial) -> list[Fact]:
    facts, values = [], trial.values
    first = material.objectives[0].name
    for objective in material.objectives:
        if isfinite(values.get(objective.name, float("nan"))):
            remark = _interval(values, objective.name)
            if objective.name == first:
                remark = "; ".join(part for part in (remark, _training(trial)) if part)
            facts.append(
                Fact(
                    readable(objective.name).partition(" (")[0],
                    measured(objective.name, values[objective.name]),
                    remark,
                )
            )
    named = {objective.name for objective in material.objectives}
    for name in ("latency", "memory", "flops"):
        if name in values and name not in named:
            title = readable(name).partition(" (")[0]
            facts.append(Fact(title, measured(name, values[name]), _interval(values, name)))
    if "params" in values:
        facts.append(Fact("size", f"{figure(values['params'])} parameters", _weights(material)))
    return facts


def _interval(values: Mapping[str, float], name: str) -> str:
    sized = Sized.of(values, name)
    if sized.known:
        return f"95 %: {between(sized.low, sized.high)}"
    return "counted, exact" if name in EXACT else "no interval is known"


def _training(trial: Trial) -> str:
    """How it was trained, in few words."""
    steps, seeds = trial.values.get("steps", trial.steps), trial.values.get("seeds")
    said = []
    if steps:
        said.append(f"after {plural(int(steps), 'step')}")
    if seeds:
        said.append("one seed" if seeds == 1 else f"mean of {int(seeds)} seeds")
    return ", ".join(said)


def _weights(material: Material) -> str:
    if material.folder is None:
        return ""
    try:
        count = (material.folder / "best" / "model.safetensors").stat().st_size
    except OSError:
        return ""
    return f"{size_words(count)} of weights on disk"


def _changes(material: Material, trial: Trial) -> list[str]:
    """What differs from the baseline, in words."""
    arch, baseline = material.architecture(trial), material.baseline
    if arch is None or baseline is None:
        return []
    return [str(change) for change in diff(baseline, arch)]


def _facts_html(info: CardInfo) -> Safe:
    rows = [
        tag("div", tag("dt", fact.name), tag("dd", tag("b", fact.value), tag("small", fact.remark)))
        for fact in info.facts
    ]
    where = tag("p", "Latency holds for ", info.where, ".", class_="quiet") if info.where else None
    return joined([tag("dl", rows), where])


def _drawing(info: CardInfo, arch: Architecture | None) -> Safe | None:
    if arch is None:
        return None
    # As an image, so that nothing in it can do anything, and the page needs no style for it.
    coded = base64.b64encode(draw_svg(arch, title=info.name).encode()).decode("ascii")
    picture = tag("img", src=f"data:image/svg+xml;base64,{coded}", alt=f"Drawing of {info.name}")
    return joined(
        [
            cells_svg(arch),
            kinds_legend([arch]),
            tag(
                "details",
                tag("summary", "The whole drawing"),
                tag("div", picture, class_="drawing"),
                open=True,
            ),
        ]
    )


def _command(what: str, words: str) -> Safe:
    return tag("div", tag("span", what, class_="quiet"), copy_html(words, what), class_="command")


def _comparison_table(info: CardInfo, material: Material) -> Safe:
    assert material.outcome.baseline is not None
    button = trial_button(info.trial.number, info.name)
    heads = ("(95 %)", button, material.outcome.baseline.name, "difference")
    rows = [
        tag(
            "tr",
            tag("th", readable(row.name), scope="row"),
            tag("td", row.ours.words),
            tag("td", row.theirs.words),
            tag(
                "td", row.words, class_=row.verdict if row.verdict in ("better", "worse") else None
            ),
        )
        for row in info.compared
    ]
    title = tag("h3", f"Beside {material.outcome.baseline.name}")
    return joined([title, table_html(heads, rows, "figures tight")])


def _changes_html(info: CardInfo, material: Material) -> Safe | None:
    if not info.changes or material.outcome.baseline is None:
        return None
    shown = [tag("li", change) for change in info.changes[:_CHANGES]]
    more = len(info.changes) - len(shown)
    if more > 0:
        shown.append(tag("li", f"and {more:,} more", class_="quiet"))
    count = plural(len(info.changes), "change")
    head = f"What differs from {material.outcome.baseline.name} ({count})"
    return tag("details", tag("summary", head), tag("ul", shown, class_="changes"))
