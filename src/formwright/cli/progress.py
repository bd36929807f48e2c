"""What a run shows while it goes on: a bar in a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

OnProgress = Callable[[dict[str, Any]], None]


@contextmanager
def watching(
    *,
    quiet: bool,
    folder: Path,
    log: Sequence[str] = (),
    tensorboard: Path | None = None,
    **about: Any,
) -> Iterator[OnProgress]:
    """Give the function that a run calls with what happens.

    Args:
        quiet: Show nothing.
        folder: Of the run.
        log: Names of trackers that are told too.
        tensorboard: Where TensorBoard's files go, if not into the folder.
        about: What the run is, for the trackers.
    """
    from formwright.track import tracked, training_listener

    names = [*log, *(["tensorboard"] if tensorboard is not None else [])]
    places = {"tensorboard": tensorboard / folder.name} if tensorboard is not None else {}
    with ExitStack() as stack:
        listeners: list[OnProgress] = []
        if not quiet and sys.stdout.isatty():
            listeners.append(stack.enter_context(_bar()))
        elif not quiet:
            listeners.append(_line)
        if names:
            numbers = stack.enter_context(tracked(names, folder, about, places=places))
            listeners.append(training_listener(numbers))

        def on_event(event: dict[str, Any]) -> None:
            if event["kind"] == "fault":
                print(f"formwright: warning: {event['message']}", file=sys.stderr)
            for listener in listeners:
                listener(event)

        yield on_event


def _line(event: dict[str, Any]) -> None:
    text = _text(event)
    if text:
        print(text, flush=True)


def _text(event: dict[str, Any]) -> str:
    if event["kind"] == "step":
        return (
            f"step {event['step']:>7}  loss {event['loss']:.4f}  rate {event['rate']:.2e}  "
            f"{event['tokens_per_second']:,.0f} tokens/s  {event['progress']:.0%}"
        )
    if event["kind"] == "scores":
        known = {k: v for k, v in event.items() if k not in ("kind", "step")}
        return f"step {event['step']:>7}  " + "  ".join(f"{k} {v:.4f}" for k, v in known.items())
    if event["kind"] == "resumed":
        return f"continuing from step {event['step']}"
    return ""


@contextmanager
def _bar() -> Iterator[OnProgress]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns) as progress:
        bar = progress.add_task("starting", total=1.0)
        last = {"metric": ""}

        def on_event(event: dict[str, Any]) -> None:
            if event["kind"] == "step":
                text = f"loss {event['loss']:.3f}  {event['tokens_per_second']:,.0f} tok/s"
                progress.update(bar, completed=event["progress"], description=text + last["metric"])
            elif event["kind"] == "scores":
                name, value = list(event.items())[-1]
                last["metric"] = f"  {name} {value:.4f}"
            elif event["kind"] == "resumed":
                progress.console.print(_text(event))
            elif event["kind"] == "end":
                progress.update(bar, completed=1.0)

        yield on_event
