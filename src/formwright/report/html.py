"""HTML that is safe by construction: every string is escaped unless it was built here.

The same holds for attributes. What the page's script reads is JSON, and never becomes markup.
"""

import json
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from formwright.draw.canvas import printable
from formwright.files import discreet

_VOID = {"meta", "link", "br", "input", "img", "circle", "path", "line", "rect", "polygon"}


class Safe(str):
    """Markup that may go into the page as it is."""

    __slots__ = ()


def text(value: object) -> Safe:
    """Anything as text; markup that is safe already stays as it is."""
    if isinstance(value, Safe):
        return value
    return Safe(escape(printable(str(value)), quote=True))


def tag(name: str, /, *children: object, **attributes: object) -> Safe:
    """An element. Lists among the children are spread; ``None`` is left out.

    Attributes: ``class_`` is class, ``aria_label`` is aria-label; ``None`` and False are left out.
    """
    head = name
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        head += f" {shown}" if value is True else f' {shown}="{text(value)}"'
    if name in _VOID:
        return Safe(f"<{head}>" if name in ("meta", "link", "br", "input", "img") else f"<{head}/>")
    return Safe(f"<{head}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Safe:
    """Several things one after the other."""
    parts = []
    for child in children:
        if child is None:
            continue
        parts.append(joined(child) if isinstance(child, list | tuple) else text(child))
    return Safe("".join(parts))


def table_html(heads: Iterable[object], rows: Iterable[Safe], class_: str = "figures") -> Safe:
    """A table that scrolls where it is too broad; ``heads`` stand above its columns."""
    head = tag("tr", [tag("th", words, scope="col") for words in heads])
    inner = tag("table", tag("thead", head), tag("tbody", list(rows)), class_=class_)
    return tag("div", inner, class_="scroll")


def row_html(name: object, cells: Iterable[object]) -> Safe:
    """A row of a table, its name first."""
    return tag("tr", tag("th", name, scope="row"), [tag("td", cell) for cell in cells])


def copy_html(words: str, what: str = "the notation") -> Safe:
    """A line that can be copied."""
    copy = tag("button", "Copy", type="button", class_="copy", aria_label=f"Copy: {what}")
    return tag("div", tag("code", words), copy, class_="notation")


def trial_button(number: int, words: object) -> Safe:
    """What opens a trial."""
    return tag("button", words, type="button", class_="link", data_trial=number)


def homeless(html: Safe) -> Safe:
    """The same without the name of the home folder, as ``discreet`` does for text."""
    home = escape(str(Path.home()))
    return Safe(discreet(html).replace(home, "~")) if len(home) > 1 else html


def packed(value: Any) -> bytes:
    """A value as JSON for the script, without the name of the home folder."""
    words = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return discreet(words).encode("utf-8", errors="replace")
