"""``formwright eval``: how good a trained model is."""

from typing import Annotated, Any

import typer

from formwright.cli.predict import MODEL_HELP
from formwright.cli.train import TASK_HELP


def run(
    folder: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
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
    from formwright.cli.resolve import model_folder
    from formwright.errors import InputError
    from formwright.train import device_of_text
    from formwright.use.tuning import Tuning, task_of

    device_of_text(device)
    where = model_folder(folder)
    tuning = Tuning.of(where, task or task_of(where))
    loaded, model, name = tuning.task, tuning.model.to(device), tuning.task.name
    if (model.frame.head, model.frame.vocab) != (tuning.frame.head, tuning.frame.vocab):
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
