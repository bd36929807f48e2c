"""The two pages around the reports: the list of runs, and one run with its report in a frame.

Every word of a run goes through ``tag``, which escapes it. The script sets text, never markup, and
the policy of each page allows its one script and one style sheet by their hash.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from formwright.report.html import Safe, tag
from formwright.serve.runs import Run
from formwright.serve.trying import CHARACTERS
from formwright.terminal.words import duration

_ASKED = {
    "classify": "A text to classify",
    "match": "Two texts to compare",
    "tag": "A text whose words are to be tagged",
    "span": "A question, and a text that may hold the answer",
    "translate": "A text to translate",
    "lm": "A text to go on from",
    "mlm": "A text with hidden words",
    "vectors": "A text",
}


def list_html(folder: str, summaries: Sequence[dict[str, Any]]) -> str:
    """The list of runs."""
    rows = [_row(found) for found in summaries]
    heads = ("run", "state", "task", "trials", "time", "result")
    table = tag(
        "table",
        tag("thead", tag("tr", [tag("th", words, scope="col") for words in heads])),
        tag("tbody", rows),
    )
    none = tag(
        "p",
        "No search lies in this folder yet. Begin one, and it appears here: ",
        tag("code", "formwright search"),
    )
    body = (
        tag("header", tag("h1", "Runs"), tag("p", folder, class_="quiet"), _gone()),
        tag("main", table if rows else none, id="list"),
    )
    return _page("Runs - formwright", body, page="list")


def run_html(run: Run, summary: dict[str, Any], model: dict[str, Any] | None) -> str:
    """One run: where it stands, its report, and a box for its model."""
    address = quote(run.name)
    head = tag(
        "header",
        tag("a", "All runs", href="/"),
        tag("h1", run.name),
        tag("p", status_words(summary), id="status", role="status"),
        tag("p", id="note", class_="quiet", role="status"),
        tag("a", "Report alone", href=f"/report/{address}"),
        _gone(),
    )
    missing = tag(
        "p",
        "This page needs scripts to follow the search. ",
        tag("a", "The report as it is now", href=f"/report/{address}"),
    )
    body = (
        head,
        _box(model),
        tag("main", id="frames"),
        tag("noscript", missing),
    )
    return _page(f"{run.name} - formwright", body, page="run", run=address)


def status_words(summary: dict[str, Any]) -> str:
    """Where a run stands, in a line."""
    if "remark" in summary:
        return str(summary["remark"])
    words = f"{state_word(summary)}: {_trials(summary)} in {duration(summary['seconds'])}"
    return words + (f", {summary['open']:,} open" if summary["running"] else "")


def state_word(summary: dict[str, Any]) -> str:
    """Running, finished or stopped."""
    if summary["running"]:
        return "running"
    if "remark" in summary:
        return "cannot be read"
    return "finished" if summary["finished"] else "stopped"


def _trials(summary: dict[str, Any]) -> str:
    failed = f", {summary['failed']:,} failed" if summary["failed"] else ""
    return f"{summary['done']:,} trials done{failed}"


def _row(found: dict[str, Any]) -> Safe:
    name = tag("a", found["name"], href=f"/run/{quote(found['name'])}")
    state = tag("td", state_word(found), class_=state_word(found).partition(" ")[0])
    if "remark" in found:
        return tag("tr", tag("th", name, scope="row"), state, tag("td", found["remark"], colspan=4))
    cells = (found["task"], _trials(found), duration(found["seconds"]), found["headline"])
    return tag("tr", tag("th", name, scope="row"), state, [tag("td", cell) for cell in cells])


def _box(model: dict[str, Any] | None) -> Safe:
    """Where a text is typed; hidden until there is a model."""
    kind = model["kind"] if model else ""
    return tag(
        "details",
        tag("summary", "Try the recommended model"),
        tag(
            "form",
            tag("label", _ASKED.get(kind, "A text"), for_="text", id="asked"),
            tag("textarea", id="text", rows=3, maxlength=CHARACTERS, required=True),
            tag("textarea", id="second", rows=2, maxlength=CHARACTERS, aria_label="Second text",
                hidden=not (model and model["two"])),
            tag("p", tag("button", "Ask", type="submit"),
                tag("span", " Ctrl+Enter does the same.", class_="quiet")),
            tag("output", id="answer", for_="text second"),
            id="ask",
        ),
        id="try",
        hidden=model is None,
    )  # fmt: skip


def _gone() -> Safe:
    return tag("p", "The server does not answer; trying again.", id="gone", hidden=True)


def _page(title: str, body: Sequence[Safe], **data: str) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Safe(_resource("live.css"))),
    )
    named = {f"data_{name}": value for name, value in data.items()}
    script = tag("script", Safe(_resource("live.js")))
    whole = tag("html", head, tag("body", *body, script, **named), lang="en")
    return f"<!doctype html>\n{whole}\n"


@cache
def policy() -> str:
    """What the browser lets these pages do: run their script, ask this server, frame a report."""
    script, style = (_hash(_resource(name)) for name in ("live.js", "live.css"))
    return (
        f"default-src 'none'; script-src {script}; style-src {style}; img-src data:; "
        "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _hash(words: str) -> str:
    digest = hashlib.sha256(words.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _resource(name: str) -> str:
    return (files("formwright.serve") / name).read_text(encoding="utf-8")
