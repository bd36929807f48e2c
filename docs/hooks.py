"""What the site adds to its pages when it is built: the reference of the command line."""

import sys
from pathlib import Path
from typing import Any

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the options of every command where a page asks for them."""
    return markdown.replace(MARK, commands()) if MARK in markdown else markdown


def commands() -> str:
    """Every command with its arguments and options, read from the parser itself."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
    import typer  # noqa: PLC0415  # only where a page asks for it

    from formwright.cli.main import app  # noqa: PLC0415

    return "\n".join(_section("formwright", typer.main.get_command(app)))


def _section(name: str, command: Any) -> list[str]:
    inner = getattr(command, "commands", {})
    lines: list[str] = []
    if " " in name:
        lines += [f"## {name}", "", (command.help or "").strip(), ""]
    rows = [_row(given) for given in command.params if given.name != "help" and " " in name]
    if rows:
        lines += ["| option | what it is | default |", "|---|---|---|", *rows, ""]
    for word, below in inner.items():
        lines += _section(f"{name} {word}", below)
    return lines


def _row(given: Any) -> str:
    words = ", ".join((*given.opts, *given.secondary_opts))
    name = f"`{words}`" if words.startswith("-") else f"`{(given.metavar or given.name).upper()}`"
    usual = given.default
    shown = "" if usual in (None, False, (), [], "") or callable(usual) else f"`{usual}`"
    text = " ".join((getattr(given, "help", "") or "").split()).replace("|", "\\|")
    return f"| {name} | {text} | {shown} |"
