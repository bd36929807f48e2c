"""``formwright profile``: measure a space on a target once, predict all of it ever after."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formwright.cli import offers

if TYPE_CHECKING:
    from formwright.cost.profile import Profile
    from formwright.space import TreeSpace

SPACE_HELP = "A name from `formwright spaces`, or a JSON file of a space."
TARGET_HELP = "Such as eager,length=192 or onnx,threads=2, or the JSON file of a target."


def run(
    space: Annotated[str, typer.Argument(help=SPACE_HELP, show_default=False)],
    out: Annotated[Path, typer.Option(help="The file of the profile.", show_default=False)],
    target: Annotated[str, typer.Option(help=TARGET_HELP, autocompletion=offers.targets)] = "eager",
    samples: Annotated[int, typer.Option(help="Members to learn from.")] = 80,
    check: Annotated[int, typer.Option(help="Members to check on, never learned from.")] = 20,
    seconds: Annotated[float, typer.Option(help="Of each measurement, at most.")] = 0.5,
    passes: Annotated[int, typer.Option(help="How often to measure all; busy machine: 2.")] = 1,
    table: Annotated[bool, typer.Option(help="Also measure single layers.")] = True,
    json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Measure members of a space, learn to predict the rest, and check that.

    The same command again continues where it stopped; with more --samples it adds to them.
    """
    from formwright.cost.profiling import design_for, profile_space, with_reference
    from formwright.cost.target import read_target
    from formwright.errors import InputError

    if not 0 < seconds < 1e6:
        raise InputError(f"--seconds {seconds:g} cannot be used; give some time above 0.")
    if not 1 <= passes <= 1000:
        raise InputError(f"--passes {passes} cannot be used; give 1 or more.")
    if not out.parent.is_dir():
        raise InputError(f"The folder {out.parent} does not exist; make it first.")
    asked = read_space(space)
    where = with_reference(asked, read_target(target))
    where.check_here()
    plan = design_for(asked, where, samples=samples, check=check, table=table)
    with _watching(quiet=json) as on_event:
        found = profile_space(
            asked, where, out, plan=plan, seconds=seconds, passes=passes, on_event=on_event
        )
    _report(found, out, json)


def read_space(text: str) -> "TreeSpace":
    """The space meant by a name or a file."""
    from formwright.errors import InputError
    from formwright.space import TreeSpace, named_space
    from formwright.space.files import read_space as from_file

    found = from_file(Path(text)) if text.endswith(".json") else named_space(text)
    if not isinstance(found, TreeSpace):
        raise InputError(f"{text} is no declared space; only those can be profiled.")
    return found


@contextmanager
def _watching(*, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A bar in a terminal, some plain lines elsewhere, failures in either."""
    import sys

    from formwright.cli.output import console

    if quiet or not sys.stdout.isatty():
        yield (lambda event: None) if quiet else _line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (BarColumn(20), MofNCompleteColumn(), Remaining(), TextColumn("{task.description}"))
    with Progress(*columns, console=console()) as progress:
        bar = progress.add_task("measuring", total=None)

        def on_event(event: dict[str, Any]) -> None:
            if event["kind"] == "begin":
                progress.update(bar, total=event["total"], completed=event["done"])
            elif event["kind"] == "measured":
                progress.update(bar, completed=event["done"], description=_said(event))

        yield on_event


def _line(event: dict[str, Any]) -> None:
    if event["kind"] == "begin" and event["done"]:
        print(f"continuing: {event['done']} of {event['total']} are measured", flush=True)
    elif event["kind"] == "measured" and (event["done"] % 10 == 0 or event["failed"]):
        print(f"{event['done']} of {event['total']} measured  {_said(event)}", flush=True)


def _said(event: dict[str, Any]) -> str:
    return f"left out: {event['failed']}" if event["failed"] else f"last {event['ms']:.3g} ms"


def _report(profile: "Profile", out: Path, json: bool) -> None:
    from dataclasses import asdict

    from formwright.cli.output import console, print_json, table

    check = {name: asdict(found) for name, found in profile.check.items()}
    entries = len(profile.table.entries) if profile.table else 0
    if json:
        facts = {"out": str(out), "space": profile.space, "target": profile.target.text}
        learned = {"samples": profile.predictor.samples, "table_entries": entries}
        print_json({**facts, "reference_ms": profile.reference_ms, **learned, "check": check})
        return
    print(
        f"{profile.predictor.samples} members and {entries} layers measured on "
        f"{profile.target.text}; guesses at members never seen:"
    )
    shown = table(
        "by", "tau", "median error", "mean error", "in interval",
        right=("tau", "median error", "mean error", "in interval"),
    )  # fmt: skip
    for name, found in profile.check.items():
        covered = "" if found.covered is None else f"{found.covered:.0%}"
        row = (f"{found.tau:.3f}", f"{found.median:.1%}", f"{found.mean:.1%}", covered)
        shown.add_row(name, *row)
    console().print(shown)
    print(f"profile: {out}")
