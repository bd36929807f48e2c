"""The head of the page: what was found, in words, how sure that is, at what cost."""

import re
from typing import NamedTuple

from formwright.report.html import Safe, joined, tag
from formwright.report.judge import Sized, trained_alike
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.sections.failures import failures_info
from formwright.report.words import between, duration, figure, plain_name, plural, readable

_FACTS = {"speedup": "times as fast", "times": "times cheaper"}


class Tile(NamedTuple):
    """A figure with a name, and a remark below."""

    name: str
    figure: str
    remark: str


class HeadlineInfo(NamedTuple):
    """What the head of the page says."""

    sentence: str
    sure: str  # how sure it is; empty where nothing was compared
    notes: list[str]
    tiles: list[Tile]


def headline_info(material: Material) -> HeadlineInfo:
    """The result in a sentence, how sure it is, and a few figures."""
    notes = [_spoken(material, note) for note in material.outcome.notes]
    return HeadlineInfo(
        _spoken(material, _sentence(material)), _sure(material), notes, _tiles(material)
    )


@section("result", "")
def headline_html(material: Material) -> Safe:
    """The head of the page."""
    info = headline_info(material)
    tiles = [
        tag("div", tag("dt", tile.name), tag("dd", tile.figure), tag("dd", tile.remark, class_="p"))
        for tile in info.tiles
    ]
    title, *others = re.split(r"(?<=\.) (?=[A-Z])", info.sentence, maxsplit=1)
    rest = "".join(others)
    task = material.meta.get("task")
    name = material.meta.get("space", {}).get("name") if material.space else None
    recipe = material.meta.get("recipe")
    about = [f"recipe {recipe}" if recipe else None, f"task {task}" if task else None]
    about += [f"space {name}" if name else None, f"strategy {material.meta['strategy']['name']}"]
    about.append(f"seed {material.meta['seed']}")
    return joined(
        [
            tag("p", material.name, class_="eyebrow"),
            tag("h1", title),
            tag("p", rest, class_="lead") if rest else None,
            tag("p", tag("b", "How sure: "), info.sure, class_="sure") if info.sure else None,
            tag("ul", [tag("li", note) for note in info.notes], class_="notes")
            if info.notes
            else None,
            tag("p", " · ".join(word for word in about if word), class_="quiet"),
            tag("dl", tiles, class_="tiles"),
        ]
    )


def _spoken(material: Material, sentence: str) -> str:
    """A sentence in which values have their names as people say them."""
    for objective in material.objectives:
        if "_" in objective.name:
            sentence = sentence.replace(objective.name, plain_name(objective.name))
    return sentence


def _sentence(material: Material) -> str:
    if material.outcome.headline:
        return material.outcome.headline
    state = material.state
    if not state.total:
        return "This study has no trials yet."
    if not state.done and material.ended:
        return _all_failed(material)
    best, first = material.chosen, material.objectives[0]
    so_far = ""
    if best is not None:
        word = "lowest" if first.direction == "min" else "highest"
        value = figure(best.values[first.name])
        so_far = f"the {word} {readable(first.name)} found is {value}, by trial {best.number}"
    if not material.ended:
        begun = f"This search is under way: {state.done:,} of {plural(state.total, 'trial')} done."
        return f"{begun} So far {so_far}." if so_far else begun
    if best is None:
        return f"None of {plural(state.total, 'trial')} keeps the limits."
    more = "" if len(material.objectives) == 1 else f"; {_front_words(material)}"
    return f"T{so_far[1:]}{more}."


def _front_words(material: Material) -> str:
    return f"the front has {plural(len(material.front), 'member')}"


def _all_failed(material: Material) -> str:
    """What a search says that has no result: the reason that most trials gave."""
    total = material.state.total
    said = f"None of {plural(total, 'trial')} has a result: all failed."
    reasons = failures_info(material)
    if not reasons:
        return said
    most = reasons[0]
    often = "All" if len(most.numbers) == total else f"{len(most.numbers):,} of them"
    return f"{said} {often} for one reason: {most.reason}"


def _sure(material: Material) -> str:
    """The uncertainty behind the headline, in words."""
    best, baseline, first = material.chosen, material.outcome.baseline, material.objectives[0]
    name = first.name
    if best is None or name not in best.values or not material.outcome.headline:
        return ""
    ours, shown = Sized.of(best.values, name), plain_name(name)
    theirs = baseline.at(best.rung).values if baseline is not None else {}
    parts = []
    if ours.known:
        said = f"{shown} {figure(ours.value)} (95 %: {between(ours.low, ours.high)})"
        if baseline is not None and name in theirs:
            other = Sized.of(theirs, name)
            overlap = other.known and ours.low <= other.high and other.low <= ours.high
            if other.known:
                said += f", {baseline.name} {between(other.low, other.high)}"
                said += "; the two overlap" if overlap else "; the two do not overlap"
        parts.append(said)
    else:
        parts.append(f"no interval of {shown} is known, so a small difference may be chance")
    seeds = best.values.get("seeds")
    if seeds == 1:
        parts.append("one seed each: another seed may shift both")
    elif seeds:
        parts.append(f"the mean of {seeds:.0f} seeds")
    if baseline is not None and theirs and not trained_alike(best, baseline):
        parts.append(f"{baseline.name} was trained otherwise, so the two are not compared")
    return "; ".join(parts)[0].upper() + "; ".join(parts)[1:] + "."


def _tiles(material: Material) -> list[Tile]:
    state, random = material.state, sum(trial.control for trial in material.trials)
    remark = f"{state.failed:,} failed" if state.failed else "none failed"
    if state.waiting + state.running:
        remark += f", {state.waiting + state.running:,} open"
    tiles = [Tile("trials", f"{state.total:,}", remark)]
    if len(material.objectives) > 1:
        tiles.append(Tile("on the front", f"{len(material.front):,}", "beaten by none in all"))
    spent = sum(trial.seconds for trial in material.trials)
    mean = duration(spent / max(1, state.done + state.failed))
    tiles.append(Tile("time of trials", duration(spent), f"{mean} each on average"))
    if random:
        tiles.append(Tile("random control", f"{random:,}", "drawn to compare with"))
    for name, value in material.outcome.facts.items():
        if name.endswith(("_low", "_high")):
            continue
        low, high = (material.outcome.facts.get(f"{name}_{end}") for end in ("low", "high"))
        if name not in _FACTS and low is None:  # the sentences and notes say what it means
            continue
        ends = f"95 %: {between(low, high)}" if low is not None and high is not None else ""
        tiles.append(Tile(_FACTS.get(name, readable(name)), figure(value), ends))
    return tiles
