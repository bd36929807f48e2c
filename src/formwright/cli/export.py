"""``formwright export``: a trained model for elsewhere."""

from pathlib import Path
from typing import Annotated

import typer

MODEL = "A run, a trial of a search (RUN#17), or the folder of a model."


def run(
    model: Annotated[str, typer.Argument(help=MODEL, show_default=False)],
    to: Annotated[str, typer.Option(help="hf, onnx, torch or openvino.", show_default=False)],
    out: Annotated[Path, typer.Option(help="A new folder.", show_default=False)],
    quantize: Annotated[str | None, typer.Option(help="int8, for ONNX.")] = None,
    calibrate: Annotated[
        int, typer.Option(help="Training rows that int8 takes its scales from; 0: while running.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Write a trained model for Hugging Face, ONNX, torch or OpenVINO, and check it."""
    from formwright.cli.output import print_json
    from formwright.cli.resolve import model_folder
    from formwright.export import export_model

    folder = model_folder(model)
    found = export_model(folder, out, to=to, quantize=quantize, calibrate=calibrate)
    if json:
        print_json(found.data())
    else:
        for line in found.words():
            print(line)
