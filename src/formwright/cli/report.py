"""``formwright report``: a study as one page."""

from pathlib import Path
from typing import Annotated

import typer

_SECONDS = 0.5  # of timing at each point


def run(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of the study.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write; RUN/report.html when not given.")
    ] = None,
    latencies: Annotated[
        bool,
        typer.Option(
            "--latencies",
            help="First time the model to take and its baseline here, over lengths and threads.",
        ),
    ] = False,
) -> None:
    """Write a study's report: one HTML file that needs no network."""
    from formwright.report import write_report

    if latencies:
        measure_latencies(folder)
    print(write_report(folder, out))


def measure_latencies(folder: Path, seconds: float = _SECONDS) -> None:
    """Time the model to take and the baseline of a study, and keep that for its report."""
    from dataclasses import astuple

    from formwright.cost import Target
    from formwright.cost.lengths import over_lengths, over_threads
    from formwright.cost.machine import describe_machine
    from formwright.errors import InputError
    from formwright.files import write_json
    from formwright.report import gather
    from formwright.study import Study

    study = Study.open(folder)
    try:
        material = gather(study)
    finally:
        study.close()
    trial = material.taken or material.chosen
    arch = material.architecture(trial) if trial is not None else None
    if trial is None or arch is None:
        raise InputError(f"{folder} has no model yet whose latency could be measured.")
    archs = {trial.note if trial.rival else f"trial {trial.number}": arch}
    best = material.chosen
    found_arch = material.architecture(best) if best is not None else None
    if best is not None and found_arch is not None:
        archs.setdefault(f"trial {best.number}", found_arch)
    if material.outcome.baseline is not None and material.baseline is not None:
        archs.setdefault(material.outcome.baseline.name, material.baseline)
    known = material.meta.get("target")
    target = Target(**known).replace(reference=None) if known else Target()
    target.check_here()
    curves = {
        "length": over_lengths(archs, target, against=arch, seconds=seconds),
        "threads": over_threads(archs, target, against=arch, seconds=seconds),
    }
    found = {
        "target": target.text,
        "machine": describe_machine(target.runtime),
        "curves": {
            axis: {name: [list(astuple(point)) for point in points] for name, points in by.items()}
            for axis, by in curves.items()
        },
    }
    place = folder / "phases"
    place.mkdir(exist_ok=True)
    write_json(place / "latencies.json", found)
