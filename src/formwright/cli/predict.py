"""``formwright predict``: ask a trained model."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formwright.cli.train import PICKLE_HELP

if TYPE_CHECKING:
    from formwright.use import Answer, Loaded
    from formwright.use.rows import Fields

MODEL_HELP = "A model's folder, a run (its best model), a trial RUN#N, or hf:OWNER/NAME."
TEXT_HELP = "Texts; standard input when there are none and no file."
SECOND_HELP = "The column of the second text, or of the context of a question."


def run(
    model: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
    texts: Annotated[list[str] | None, typer.Argument(help=TEXT_HELP, show_default=False)] = None,
    file: Annotated[Path | None, typer.Option(help="csv, tsv, jsonl, or a text a line.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write there: csv, tsv or jsonl.")] = None,
    text: Annotated[str | None, typer.Option(help="The column of the text.")] = None,
    text2: Annotated[str | None, typer.Option(help=SECOND_HELP)] = None,
    length: Annotated[int, typer.Option(min=1, help="Symbols that a language model writes.")] = 100,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 takes the likeliest.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Of what is drawn.")] = 0,
    batch_tokens: Annotated[
        int | None, typer.Option(min=1, help="Symbols read at once; by the device if not given.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    unsafe_pickle: Annotated[bool, typer.Option("--unsafe-pickle", help=PICKLE_HELP)] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Answer texts with a trained model: labels, tags, translations, or what comes next."""
    from formwright.cli.resolve import model_folder
    from formwright.errors import InputError
    from formwright.train import device_of_text
    from formwright.use import load
    from formwright.use.rows import Columns, answered

    if texts and file:
        raise InputError("Give texts or --file, not both.")
    device_of_text(device)
    loaded = load(model_folder(model), device=device, unsafe_pickle=unsafe_pickle)
    columns = Columns(loaded.reading, text, text2)

    def answers(rows: Any) -> Iterator["Answer"]:
        if loaded.kind == "lm":
            return _continued(loaded, rows, length, temperature, seed)
        return loaded.stream(rows, batch_tokens=batch_tokens)

    with _asked(texts, file, two=columns.two) as rows:
        found = answered(rows, columns, answers)
        if out is not None:
            _write(found, out)
        else:
            _print(found, json)


def _continued(
    loaded: "Loaded", rows: Any, length: int, temperature: float, seed: int
) -> Iterator["Answer"]:
    from formwright.use import Written

    for prompt in rows:
        yield Written(loaded.generate(prompt, length, temperature=temperature, seed=seed))


@contextmanager
def _asked(
    texts: list[str] | None, file: Path | None, *, two: bool
) -> Iterator[Iterator[tuple["Fields", str]]]:
    """The rows that were asked for; a file shows how far it is."""
    from rich.console import Console
    from rich.progress import Progress

    from formwright.use.rows import read_file, read_lines

    if file is None:
        yield _typed(texts, two=two) if texts else read_lines(sys.stdin)
        return
    size = file.stat().st_size if file.is_file() else 0
    with Progress(console=Console(stderr=True), transient=True) as bar:
        whole = bar.add_task(file.name, total=size)
        yield read_file(file, lambda read: bar.update(whole, completed=read))


def _typed(texts: list[str], *, two: bool) -> Iterator[tuple["Fields", str]]:
    """Texts of the command line; two in turn where the model reads two."""
    from formwright.errors import InputError

    if not two:
        yield from (({"text": text}, f"text {n}") for n, text in enumerate(texts, 1))
        return
    if len(texts) % 2:
        raise InputError(f"This model reads two texts at a time; {len(texts)} were given.")
    for n, (a, b) in enumerate(zip(texts[::2], texts[1::2], strict=True), 1):
        yield {"text1": a, "text2": b}, f"pair {n}"


def _write(found: Iterator[tuple["Fields", "Answer"]], out: Path) -> None:
    from formwright.errors import InputError
    from formwright.use.rows import writer

    if out.suffix.lower() not in (".csv", ".tsv", ".jsonl", ".ndjson"):
        raise InputError(f"--out {out} should end in .csv, .tsv or .jsonl.")
    count = 0
    with writer(out) as keep:
        for fields, answer in found:
            keep(fields, answer)
            count += 1
    print(f"{count:,} answers: {out}")


def _print(found: Iterator[tuple["Fields", "Answer"]], json: bool) -> None:
    from json import dumps

    for _, answer in found:
        print(dumps(answer.to_data(), ensure_ascii=False) if json else answer, flush=True)
