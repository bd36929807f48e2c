"""How to repeat the study, and how to go on with it."""

from typing import Any, NamedTuple

from formwright.report.html import Safe, copy_html, joined, tag
from formwright.report.material import Material
from formwright.report.section import section
from formwright.report.where import machine_words, target_of, target_words
from formwright.report.words import measured, plain_name, readable, wish

_LONGEST = 300  # of an option's value


class RepeatInfo(NamedTuple):
    """What a repetition needs."""

    command: str  # empty where the study was begun from Python
    settings: list[tuple[str, str]]
    versions: list[tuple[str, str]]


def repeat_info(material: Material) -> RepeatInfo:
    """Command, settings and versions, as the study recorded them when it was begun."""
    meta = material.meta
    target, machine = target_of(material), meta.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    options, rules = meta["strategy"]["options"], meta["rules"]
    settings = [
        ("begun", str(meta.get("created", ""))),
        ("task", str(meta.get("task", ""))),
        ("space", str(meta["space"].get("name", "")) if isinstance(meta["space"], dict) else ""),
        ("objectives", ", ".join(f"{readable(o.name)} ({wish(o)})" for o in material.objectives)),
        ("strategy", meta["strategy"]["name"]),
        *((f"strategy: {name}", str(value)[:_LONGEST]) for name, value in options.items()),
        ("seed", str(meta["seed"])),
        ("target", target_words(target) if target else ""),
        ("machine", machine_words(material)),
        ("instructions", str(machine.get("instructions") or "")),
        ("recipe", str(meta.get("recipe") or "")),
        *((name, str(value)[:_LONGEST]) for name, value in _flat(meta.get("hyperparameters"))),
        ("trials at once", str(rules["window"])),
        ("random control", f"one trial in {rules['control']}" if rules["control"] else "none"),
        *(
            (f"limit of {plain_name(name)}", measured(name, most))
            for name, most in material.limits.items()
        ),
    ]
    return RepeatInfo(
        command=str(meta.get("command", "")),
        settings=[(name, value) for name, value in settings if value],
        versions=[
            *((str(name), str(v)) for name, v in meta.get("versions", {}).items()),
            *((f"processor: {name}", str(v)) for name, v in meta.get("processor", {}).items() if v),
        ],
    )


@section("repeat", "To repeat it")
def repeat_html(material: Material) -> Safe:
    """The section."""
    info = repeat_info(material)
    command = [tag("h3", "Command"), copy_html(info.command)] if info.command else None
    again = "the same command" if info.command else "search(Study.open(folder), ...)"
    going = (
        f"Run {again} in the same folder: the search goes on where its record ends, with the "
        "same trials as if it had never stopped. Nothing that was evaluated is evaluated again. "
        "The same seed gives the same trials on the same kind of processor with the same versions; "
        "another processor's linear algebra rounds differently, and a search follows its numbers, "
        "so that it may take another course there."
    )
    return joined(
        [
            command,
            tag(
                "div",
                _list("Settings", info.settings),
                _list("Versions", info.versions),
                class_="twin",
            ),
            tag("h3", "To go on"),
            tag("p", going),
        ]
    )


def _flat(values: Any, before: str = "") -> list[tuple[str, Any]]:
    """Numbers of a recipe that are not at their default, nested ones with dots in their names."""
    if not isinstance(values, dict):
        return [(before, values)] if before and values not in (None, "") else []
    return [
        pair
        for name, value in values.items()
        for pair in _flat(value, f"{before}.{name}" if before else str(name))
    ]


def _list(title: str, rows: list[tuple[str, str]]) -> Safe:
    pairs = [(tag("dt", name), tag("dd", value)) for name, value in rows]
    return tag("div", tag("h3", title), tag("dl", pairs, class_="pairs"))
