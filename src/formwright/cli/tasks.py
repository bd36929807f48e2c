"""``formwright tasks``: what there is to learn, what a kind takes, what is in a task's data.

Kinds declare what they take where they are registered (``formwright.tasks.guide``); here it is
only printed.
"""

import shutil
import textwrap
from collections.abc import Sequence
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="List tasks, see what a kind takes, or check one: rows, labels, lengths, examples.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_JSON = typer.Option("--json", help="Print JSON instead of text.")
_LABELS = 20  # that are shown before the rest is only counted
_WIDE = 300  # characters of an example


@app.callback(invoke_without_command=True)
def run(context: typer.Context, json: Annotated[bool, _JSON] = False) -> None:
    """List tasks, see what a kind takes, or check one: rows, labels, lengths, examples."""
    if context.invoked_subcommand is not None:
        return
    from formwright.cli.output import console, print_json, table
    from formwright.tasks import task_names

    names = task_names()
    if json:
        print_json([{"name": name, "description": text} for name, text in names])
        return
    made = table("name", "description", widest=76)
    for name, text in names:
        made.add_row(name.replace("[", "\\["), text)
    console().print(made)
    print("\nWhat a kind takes (files, columns, options): formwright tasks show classify")
    print("Options follow a question mark: classify:reviews.csv?text=body&label=stars")


@app.command("show")
def show(
    task: Annotated[
        str,
        typer.Argument(
            help="A kind such as classify, or a task: listops-tiny, classify:reviews.csv.",
            show_default=False,
        ),
    ],
    json: Annotated[bool, _JSON] = False,
) -> None:
    """What a kind of task takes, or what is in a task's data: rows, labels, lengths, examples."""
    from formwright.cli.output import print_json
    from formwright.tasks import load_task, task_guide
    from formwright.tasks.registry import needs_path, tasks

    guide = task_guide(task.strip()) if task.strip() in tasks else None
    if guide is not None and needs_path(task.strip()):
        print_json(guide) if json else _print_guide(guide)
        return
    found = load_task(task).describe()
    if json:
        print_json(found | ({"options": guide["options"]} if guide else {}))
        return
    _print(found)
    if guide is not None:
        _print_options(guide)


# --- a kind -----------------------------------------------------------------------------


def _print_guide(guide: dict[str, Any]) -> None:
    print(_line("", f"{guide['written']}: {guide['description']}"))
    _section("files", list(guide["formats"].items()))
    columns = [(one["option"] or one["usual"][0], _column(one)) for one in guide["columns"]]
    _section("columns of tables", columns)
    _print_options(guide)
    usual = [("", f"Usually {guide['default']}.")] if guide["default"] else []
    _section("metrics", [*guide["metrics"].items(), *usual])
    _section("splits", [("", guide["splits"])])
    for name, content in guide["files"].items():
        print(f"\nexample: {name}")
        for line in content.splitlines():
            print(f"  {line}".rstrip())
    print("\ncommands")
    print(f"  formwright tasks show '{guide['example']}'")
    print("  " + guide["command"].replace(" --task", " \\\n    --task"))


def _print_options(guide: dict[str, Any]) -> None:
    options = [(_option(one), one["about"]) for one in guide["options"]]
    _section(f"options, as in '{guide['written']}?NAME=VALUE&NAME=VALUE'", options)


def _section(title: str, rows: Sequence[tuple[str, str]]) -> None:
    if not rows:
        return
    print(f"\n{title}")
    widest = max(len(name) for name, _ in rows)
    for name, text in rows:
        print(_line(f"  {name:<{widest}}  " if name else "  ", text))


def _column(column: dict[str, Any]) -> str:
    return f"{column['holds']} Found as {', '.join(column['usual'])}."


def _option(option: dict[str, Any]) -> str:
    name, default = option["name"], option["default"]
    if default in (None, ""):
        return str(name)
    return f"{name}={str(default).lower() if isinstance(default, bool) else default}"


def _line(first: str, text: str) -> str:
    """A line that goes on below where its text begins; words are never broken."""
    return textwrap.fill(
        text,
        shutil.get_terminal_size().columns,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


# --- a task -----------------------------------------------------------------------------


def _print(found: dict[str, Any]) -> None:
    rows = ", ".join(f"{split} {count:,}" for split, count in found["rows"].items())
    sizes = found["lengths"]
    lengths = (
        f"{sizes['min']} to {sizes['max']} tokens, mean {sizes['mean']:.1f}, "
        f"95 % within {sizes['p95']}"
    )
    lines = {
        "task": found["name"],
        "metric": found["metric"],
        "rows": rows,
        "split": found["split"],
        "labels": _labels(found["labels"]),
        "lengths": lengths,
        "longest": f"{found['longest']} tokens are read at most",
        "tokenizer": f"{found['tokenizer']}, {found['vocabulary']:,} symbols",
    }
    lines |= {f"note {n}": text for n, text in enumerate(found["notes"], 1)}
    for name, text in lines.items():
        if text:
            print(_line(f"{name:<10} ", text))
    for number, example in enumerate(found["examples"], 1):
        print(f"\nexample {number}")
        for name, text in example.items():
            print(f"  {name:<8} {_plain(str(text))}")


def _labels(labels: dict[str, Any] | None) -> str:
    if not labels:
        return ""
    shown = [f"{_plain(name)} {_number(count)}" for name, count in list(labels.items())[:_LABELS]]
    more = len(labels) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more > 0 else "")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _plain(text: str) -> str:
    """One line without control characters, which could play with the terminal."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= _WIDE else text[: _WIDE - 3] + "..."
