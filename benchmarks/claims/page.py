"""The page: every row with what was published, what was found, and how old that is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provenance import History, Origin

from claims.row import WORDS, Row, Told
from claims.shape import Misfit, check

SYSTEMS = (
    ("LiteTransformerSearch", "https://arxiv.org/abs/2203.02094", "lts"),
    ("PAR Transformer", "https://arxiv.org/abs/2009.04534", "par"),
    ("Finding Fast Transformers", "https://arxiv.org/abs/2008.06808", "fft"),
    ("DARTFormer", "https://arxiv.org/abs/2210.00641", "dartformer"),
    ("AutoDistil", "https://arxiv.org/abs/2201.12507", "autodistil"),
    ("NAS-BERT", "https://arxiv.org/abs/2105.14444", "nas-bert"),
    ("Primer", "https://arxiv.org/abs/2109.08668", "primer"),
    ("Evolved Transformer", "https://arxiv.org/abs/1901.11117", "evolved"),
    ("AutoBERT-Zero", "https://arxiv.org/abs/2107.07445", "autobert-zero"),
)
OLD = "older than its code"
HEAD = """# Evidence

<!-- Written by `python benchmarks/evidence.py` (make evidence-page). Do not edit. -->

Every figure on this page is read from a file in `benchmarks/results/`, and every verdict follows
from the figures by a rule in `benchmarks/claims/`. Nothing here is at the papers' scale: all of it
ran on one or two cores of a shared machine, with models of 0.1 to 22 million weights. "Holds" says
that the effect is there at that scale, with the seeds that are named, and no more. What was tried
besides, and why things failed, is in the [log](log.md).

Spread is the standard deviation over seeds (±) where it is not called an interval. A figure that is
**{old}** was measured before the code it speaks of last changed, comments aside; it may be
better or worse now. {age}

`make evidence` repeats the short form of all rows in under two hours, and `python
benchmarks/evidence.py run NAME` that of one. The commands below repeat the figures themselves; for
FOLDER see [the data](evidence-data.md).
"""


def page_of(rows: Sequence[Row], results: Path, history: History | None) -> str:
    """The whole page as Markdown."""
    told = {row.name: told_of(row, results, history) for row in rows}
    marks = {row.name: _mark(row, told[row.name][1], history) for row in rows}
    groups = list(dict.fromkeys(row.group for row in rows))
    systems = [name for name, _, _ in SYSTEMS]
    own = {row.group for row in rows if row.published.startswith("wanted")}
    peers = [group for group in groups if group not in systems and group not in own]
    mine = [group for group in groups if group in own and group not in systems]
    order = (*systems, *peers, *mine)
    rows = sorted(rows, key=lambda row: order.index(row.group))
    parts = [_head(history), _negative(rows, told), _summary(rows, told, marks)]
    for title, names in (
        ("The nine systems", systems),
        ("Beside other programs", peers),
        ("formwright itself", mine),
    ):
        parts.append(f"## {title}\n")
        parts += [_group(name, rows, told, marks) for name in names]
    return "\n".join(parts).rstrip() + "\n"


def told_of(row: Row, results: Path, history: History | None) -> tuple[Told, Origin | None]:
    """What a row's figures say, checked against their shape, and where they come from."""
    path = results / f"{row.file}.json"
    part: Any = None
    if row.file and path.exists():
        try:
            part = row.pick(json.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise Misfit(f"{path.name} is not JSON: {error}.") from None
    if part is None:
        return Told("open", "", 0), None
    check(part, row.shape, ".".join((path.name, *row.part)))
    try:
        told = row.tell(part)
    except (KeyError, IndexError, TypeError, ValueError, StopIteration) as error:
        raise Misfit(
            f"{path.name} has not the figures that {row.name} reads: {error!r}."
        ) from error
    origin = history.origin(f"benchmarks/results/{row.file}.json", row.pick) if history else None
    return told, origin


def _mark(row: Row, origin: Origin | None, history: History | None) -> str:
    if origin is None or history is None:
        return ""
    changed = history.changed(origin, [f"src/formwright/{room}" for room in row.rooms])
    return OLD if changed else ""


def _head(history: History | None) -> str:
    if history is None:
        age = "This page is of short runs just made, not of published figures."
    elif history.missing:
        age = f"How old figures are cannot be said here: {history.missing}."
    else:
        age = (
            "What changed is told by `python benchmarks/evidence.py age`. Dates\n"
            "are those of the commits that brought the figures."
        )
    return HEAD.format(old=OLD, age=age)


def _negative(rows: Sequence[Row], told: dict[str, Any]) -> str:
    lines = ["## What does not hold\n"]
    for verdict, title in (("no", "Measured, and not so"), ("open", "Not measured")):
        names = [row for row in rows if told[row.name][0].verdict == verdict]
        lines.append(f"**{title}** ({len(names)} of {len(rows)} rows):\n")
        lines += [f"- {row.group}, [{row.name}](#{row.name}): {row.claim}" for row in names]
        lines.append("")
    return "\n".join(lines)


def _summary(rows: Sequence[Row], told: dict[str, Any], marks: dict[str, str]) -> str:
    lines = [
        "## All rows\n",
        "| row | about | verdict | seeds or runs | measured |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        found, origin = told[row.name]
        when = f"{origin.date}{', ' + marks[row.name] if marks[row.name] else ''}" if origin else ""
        lines.append(
            f"| [{row.name}](#{row.name}) | {row.group} | {WORDS[found.verdict]} | "
            f"{found.seeds or ''} | {when} |"
        )
    return "\n".join(lines) + "\n"


def _group(name: str, rows: Sequence[Row], told: dict[str, Any], marks: dict[str, str]) -> str:
    links = {system: f"[paper]({url}), [what was built](systems/{page}.md)"
             for system, url, page in SYSTEMS}  # fmt: skip
    lines = [f"### {name}\n"]
    if name in links:
        lines.append(f"{links[name]}\n")
    for row in rows:
        if row.group == name:
            lines.append(_row(row, *told[row.name], marks[row.name]))
    return "\n".join(lines)


def _row(row: Row, told: Told, origin: Origin | None, mark: str) -> str:
    lines = [
        f'<a id="{row.name}"></a>',
        f"**{row.name}**: {row.claim}: {WORDS[told.verdict]}\n",
        _beside(row),
    ]
    if told.verdict == "open":
        lines.append(f"- here: nothing is on record{'' if row.command else ', no benchmark yet'}")
    else:
        lines.append(f"- here: {told.found}")
        lines += [f"- control: {told.control}"] if told.control else []
        lines.append(f"- on: {row.data}")
        lines.append(f"- repeated: {'once' if told.seeds == 1 else f'{told.seeds} times'}")
        if origin is not None:
            lines.append(f"- measured: {origin.date}{f', **{mark}**' if mark else ''}")
    if row.command:
        lines.append(f"- command: `{row.command}`")
    return "\n".join(lines) + "\n"


def _beside(row: Row) -> str:
    """What a figure is held against: a paper's, a rival's, or what was wanted."""
    label, _, rest = row.published.partition(": ")
    known = ("wanted", "rival")
    return f"- {row.published}" if label in known and rest else f"- published: {row.published}"
