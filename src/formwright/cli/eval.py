"""``formwright eval``: how good a trained model is."""

from pathlib import Path
from typing import Annotated, Any

import typer

from formwright.cli.train import TASK_HELP


def run(
    folder: Annotated[Path, typer.Argument(help="A run, or a saved model.", show_default=False)],
    task: Annotated[
        str | None, typer.Option(help=TASK_HELP + " That of the run when not given.")
    ] = None,
    split: Annotated[str, typer.Option(help="valid or test.")] = "test",
    batch_tokens: Annotated[int, typer.Option(help="Tokens in a batch.")] = 4096,
    memory: Annotated[int, typer.Option(help="Tokens remembered between segments.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Score a trained model on a task."""
    from formwright.cli.output import print_json
    from formwright.errors import InputError
    from formwright.model import load_model
    from formwright.tasks import load_task
    from formwright.train import device_of_text
    from formwright.train.run import read_run

    device_of_text(device)
    where = _model_folder(folder)
    name = task or read_run(where.parent)["task"]
    loaded = load_task(name)
    model = load_model(where, device=device)
    if model.frame != loaded.frame:
        raise InputError(
            f"{folder} was trained for {model.frame.head.NAME} with {model.frame.vocab} symbols; "
            f"{name} needs {loaded.frame.head.NAME} with {loaded.frame.vocab}."
        )
    scores: dict[str, Any] = loaded.score(
        model, split, batch_tokens=batch_tokens, memory=memory or None
    )
    if json:
        print_json({"task": name, "split": split, "metric": loaded.metric, **scores})
    else:
        for metric, value in scores.items():
            print(f"{metric:20} {value:.4f}")


def _model_folder(folder: Path) -> Path:
    """Where the weights lie: in the folder, in its ``model``, or in that of its only seed."""
    from formwright.errors import InputError

    places = [folder, folder / "model", *sorted(folder.glob("seed-*/model"))]
    found = [place for place in places if (place / "model.safetensors").is_file()]
    if not found:
        raise InputError(f"{folder} holds no trained model; is the run finished?")
    return found[0]
