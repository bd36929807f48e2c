"""The page: one file that holds everything, and lets nothing in or out.

Its Content-Security-Policy allows exactly the one script and the one style sheet written here, by
their hash, and images from the page itself; no network, no forms, no frames.
"""

import base64
import hashlib
import time
import warnings
from collections.abc import Sequence
from importlib.resources import files

from formwright.draw.canvas import stylesheet
from formwright.report.data import data_html, drawing_data, layer_data, trial_data
from formwright.report.html import Safe, homeless, joined, tag
from formwright.report.material import Material
from formwright.report.section import Section, sections

# Later ones use earlier ones. What a study holds is only ever set as text or as an image.
_SCRIPT = ("base", "trial", "beside", "chart", "table", "page")


def page_html(material: Material) -> str:
    """The whole report."""
    shown = [(section, _drawn(section, material)) for section in sections()]
    parts = [(section, html) for section, html in shown if html is not None]
    if not any(trial.done for trial in material.trials):  # then the reasons are what matters
        parts.sort(key=lambda part: part[0].id not in ("result", "failures"))
    contents = [(s.id, s.title) for s, _ in parts if s.title]
    data = [
        tag("dialog", id="detail", aria_label="Trial"),
        tag("div", id="tip", role="status", hidden=True),
        data_html("trial-data", trial_data(material)),
        data_html("drawing-data", drawing_data(material)),
        data_html("layer-data", layer_data(material)),
    ]
    inner = [_section(section, html) for section, html in parts]
    return whole_page(material.name, contents, inner, data, page_script(*_SCRIPT))


def whole_page(
    title: str,
    contents: Sequence[tuple[str, str]],
    inner: Sequence[Safe],
    data: Sequence[Safe],
    script: str,
) -> str:
    """A page that holds everything, and lets nothing in or out.

    Args:
        title: In the browser's bar.
        contents: Where links at the top lead, and their words.
        inner: What is shown.
        data: What the script reads.
        script: The one that may run.
    """
    style = _resource("page.css") + stylesheet()
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("link", rel="icon", href="data:,"),
        homeless(tag("title", f"{title} - formwright")),
        tag("style", Safe(style)),
    )
    links = [tag("a", words, href=f"#{id_}") for id_, words in contents]
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    body = tag(
        "body",
        tag("a", "To the content", href="#content", class_="skip"),
        tag("nav", links, aria_label="Sections") if links else None,
        homeless(tag("main", list(inner), id="content")),
        tag("footer", f"Made by formwright on {made}."),
        list(data),
        tag("script", Safe(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def page_script(*names: str) -> str:
    """Files of the script one after the other, in a room of their own."""
    parts = [_resource(f"script/{name}.js") for name in names]
    return '"use strict";\n(async () => {\n' + "\n".join(parts) + "})();\n"


def _drawn(section: Section, material: Material) -> Safe | None:
    """The content of a section; one whose files are damaged says so, and the others are shown."""
    try:
        return section.html(material)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        what = f"what the search kept for it cannot be read ({type(error).__name__}: {error})"
        warnings.warn(f"The section {section.id} cannot be drawn: {what}.", stacklevel=2)
        return tag("p", f"This part cannot be drawn: {what}.")


def _section(section: Section, html: Safe) -> Safe:
    return section_html(section.id, section.title, html)


def section_html(id: str, title: str, html: Safe) -> Safe:
    """A part of a page under its title."""
    heading = tag("h2", title) if title else None
    return tag("section", joined([heading, html]), id=id)


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
