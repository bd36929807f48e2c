"""``formwright targets``: what this machine can measure, and what is missing for the rest."""

from pathlib import Path
from typing import Annotated, Any

import typer

from formwright.cli import offers
from formwright.cli.measure import TARGET_HELP


def run(
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Calibrate --target here and write it to this file.")
    ] = None,
    target: Annotated[str, typer.Option(help=TARGET_HELP, autocompletion=offers.targets)] = "eager",
    seconds: Annotated[float, typer.Option(help="Time to calibrate.")] = 5.0,
) -> None:
    """List what this machine can measure, or calibrate a target and keep it."""
    from formwright.cli.output import print_json

    if save is not None:
        _save(save, target, seconds)
        return
    (print_json if json else _print)(_data())


def _save(path: Path, text: str, seconds: float) -> None:
    from formwright.cost import calibrate, read_target, save_target
    from formwright.errors import InputError

    if not 0 < seconds <= 3600:
        raise InputError(f"--seconds {seconds:g} cannot be used; give between 0 and 3600.")
    goal = read_target(text)
    goal.check_here()
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}.")
    made = calibrate(goal.replace(name=goal.name or path.stem), seconds=seconds)
    save_target(made, path)
    print(f"The reference takes {made.reference_ms:.3g} ms on {made.text}; written to {path}")


def _data() -> dict[str, Any]:
    from formwright.cost.machine import (
        cores,
        cpu,
        describe_machine,
        energy_counters,
        fingerprint,
        package_version,
        runtimes,
    )

    rows = [
        {
            "name": name,
            "package": runtime.package,
            "version": package_version(runtime.package),
            "dtypes": list(runtime.dtypes),
            "install": runtime.missing,
        }
        for name, runtime in runtimes.items()
    ]
    return {
        "cpu": cpu()["name"],
        "instructions": cpu()["instructions"].split(),
        "system": describe_machine()["system"],
        "devices": ["cpu"],
        "threads": cores(),
        "energy": bool(energy_counters()),
        "fingerprint": fingerprint(),
        "runtimes": rows,
    }


def _print(found: dict[str, Any]) -> None:
    from formwright.cli.output import console, table

    made = table("runtime", "version", "dtypes", "missing", wrap=("missing",))
    for row in found["runtimes"]:
        missing = row["install"] or ""
        dtypes = "" if missing else " ".join(row["dtypes"])
        version = f"{row['package']} {row['version']}" if row["version"] else "not installed"
        made.add_row(row["name"], version, dtypes, missing.replace("[", "\\["))
    console().print(made)
    print(f"\nprocessor    {found['cpu']}, {found['threads']} threads")
    print(f"instructions {' '.join(found['instructions']) or 'unknown'}")
    print(f"system       {found['system']}")
    print(f"energy       {'counters can be read' if found['energy'] else 'no counters to read'}")
    print(f"fingerprint  {found['fingerprint']}")
    print("\nformwright measure ARCH --target RUNTIME,threads=N,length=N,dtype=WORD")
