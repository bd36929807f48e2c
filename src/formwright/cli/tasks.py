"""``formwright tasks``: what there is to learn, and whether a user's own data can be read."""

from typing import Annotated, Any

import typer

app = typer.Typer(
    help="List tasks, or check one: its rows, labels, lengths and first examples.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_JSON = typer.Option("--json", help="Print JSON instead of text.")
_LABELS = 20  # that are shown before the rest is only counted
_WIDE = 300  # characters of an example


@app.callback(invoke_without_command=True)
def run(context: typer.Context, json: Annotated[bool, _JSON] = False) -> None:
    """List tasks, or check one: its rows, labels, lengths and first examples."""
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
    print("\nOptions follow a question mark: classify:reviews.csv?text=body&label=stars")


@app.command("show")
def show(
    task: Annotated[
        str,
        typer.Argument(help="Such as listops-tiny or classify:reviews.csv.", show_default=False),
    ],
    json: Annotated[bool, _JSON] = False,
) -> None:
    """Read a task's data and show what is in it: rows, labels, lengths, three examples."""
    from formwright.cli.output import print_json
    from formwright.tasks import load_task

    (print_json if json else _print)(load_task(task).describe())


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
        "longest": f"{found['longest']} tokens are read at most{_cut(found['truncated'])}",
        "tokenizer": f"{found['tokenizer']}, {found['vocabulary']:,} symbols",
    }
    lines |= {f"note {n}": text for n, text in enumerate(found["notes"], 1)}
    for name, text in lines.items():
        if text:
            print(f"{name:<10} {text}")
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


def _cut(truncated: dict[str, int]) -> str:
    cut = ", ".join(f"{count:,} of {split}" for split, count in truncated.items() if count)
    return f"; longer rows are cut at the end: {cut}" if cut else ""


def _plain(text: str) -> str:
    """One line without control characters, which could play with the terminal."""
    text = "".join(c if c.isprintable() else " " for c in text)
    return text if len(text) <= _WIDE else text[: _WIDE - 3] + "..."
