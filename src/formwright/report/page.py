"""The page: one file that holds everything, and lets nothing in or out.

Its Content-Security-Policy allows exactly the one script and the one style sheet written here, by
their hash, and images from the page itself; no network, no forms, no frames.
"""

import base64
import hashlib
import time
import warnings
from importlib.resources import files

from formwright.draw.canvas import stylesheet
from formwright.report.data import data_html, drawing_data, trial_data
from formwright.report.html import Safe, homeless, joined, tag
from formwright.report.material import Material
from formwright.report.section import Section, sections


def page_html(material: Material) -> str:
    """The whole report."""
    style = _resource("page.css") + stylesheet()
    script = _resource("page.js")
    shown = [(section, _drawn(section, material)) for section in sections()]
    parts = [(section, html) for section, html in shown if html is not None]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        homeless(tag("title", f"{material.name} - formwright")),
        tag("style", Safe(style)),
    )
    contents = [tag("a", s.title, href=f"#{s.id}") for s, _ in parts if s.title]
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    body = tag(
        "body",
        tag("nav", contents, aria_label="Sections") if contents else None,
        homeless(tag("main", [_section(section, html) for section, html in parts])),
        tag("footer", f"Made by formwright on {made}."),
        tag("dialog", id="detail", aria_label="Trial"),
        tag("div", id="tip", role="status", hidden=True),
        data_html("trial-data", trial_data(material)),
        data_html("drawing-data", drawing_data(material)),
        tag("script", Safe(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _drawn(section: Section, material: Material) -> Safe | None:
    """The content of a section; one whose files are damaged says so, and the others are shown."""
    try:
        return section.html(material)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        what = f"what the search kept for it cannot be read ({type(error).__name__}: {error})"
        warnings.warn(f"The section {section.id} cannot be drawn: {what}.", stacklevel=2)
        return tag("p", f"This part cannot be drawn: {what}.")


def _section(section: Section, html: Safe) -> Safe:
    title = tag("h2", section.title) if section.title else None
    return tag("section", joined([title, html]), id=section.id)


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(words: str) -> str:
    digest = hashlib.sha256(words.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _resource(name: str) -> str:
    return (files("formwright.report") / name).read_text(encoding="utf-8")
