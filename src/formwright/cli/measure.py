"""``formwright measure``: how long architectures take on this machine, and what they hold."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formwright.cli import MODEL_HELP, offers

if TYPE_CHECKING:
    from formwright.arch import Architecture
    from formwright.cost import Latency, Target

TARGET_HELP = "Such as onnx,threads=2,length=192,dtype=int8, or a JSON file."


@dataclass(frozen=True)
class Row:
    """What is known of one architecture on a target."""

    name: str
    latency: "Latency"
    peak_bytes: int | None
    flops: int | None
    params: int
    energy_joules: float | None  # None where the machine has no counters


def run(
    arch: Annotated[list[str], typer.Argument(help=MODEL_HELP, show_default=False)],
    against: Annotated[
        str | None, typer.Option(help="What ratios are taken to; the first of several ARCH.")
    ] = None,
    target: Annotated[str, typer.Option(help=TARGET_HELP, autocompletion=offers.targets)] = "eager",
    seconds: Annotated[float, typer.Option(help="Timing of each, at most.")] = 5.0,
    precision: Annotated[
        float, typer.Option(help="Width of the ratio's interval at which to stop.")
    ] = 0.02,
    memory: Annotated[bool, typer.Option(help="Also measure peak memory, in a process.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    svg: Annotated[
        Path | None, typer.Option(help="Also draw latency against length into this file.")
    ] = None,
) -> None:
    """Time architectures on this machine, in alternation with a reference."""
    from formwright.cli.output import print_json, write_drawing
    from formwright.cli.resolve import resolve
    from formwright.cost import read_target

    _check(seconds, precision)
    goal = read_target(target)
    goal.check_here()
    archs = {text: resolve(text) for text in arch}
    beside = _beside(archs, against, goal)
    rows = _measured(archs, beside, goal, seconds, precision, memory)
    if svg is not None:
        from formwright.cost.curve import curve_svg
        from formwright.cost.lengths import over_lengths

        curves = over_lengths(archs, goal, against=beside, seconds=seconds)
        write_drawing(svg, curve_svg(curves, "Latency against length", f"on {goal.text}"))
    if json:
        print_json([_data(row, goal) for row in rows])
    else:
        words = against or (arch[0] if beside is not None else "the target's reference")
        _print(rows, goal, words)
        if svg is not None:
            print(f"drawn into {svg}")


def _check(seconds: float, precision: float) -> None:
    from formwright.errors import InputError

    if not 0 < seconds <= 3600:
        raise InputError(f"--seconds {seconds:g} cannot be used; give between 0 and 3600.")
    if not 0 < precision < 1:
        raise InputError(f"--precision {precision:g} cannot be used; 0.02 stands for 2 %.")


def _beside(
    archs: dict[str, "Architecture"], against: str | None, target: "Target"
) -> "Architecture | None":
    from formwright.cli.resolve import resolve

    if against is not None:
        return resolve(against)
    several = len(archs) > 1 and target.reference is None and target.reference_ms is None
    return next(iter(archs.values())) if several else None


def _measured(
    archs: dict[str, "Architecture"],
    beside: "Architecture | None",
    target: "Target",
    seconds: float,
    precision: float,
    memory: bool,
) -> list[Row]:
    from formwright.cost import Meter, count, peak_memory
    from formwright.cost.energy import energy_per_run
    from formwright.cost.step import flops_of

    meter = Meter(target, beside)
    return [
        Row(
            name,
            meter.measure(arch, seconds=seconds, precision=precision),
            peak_memory(arch, target).peak_bytes if memory else None,
            flops_of(arch, target),
            count(arch, length=1).params,
            energy_per_run(arch, target),
        )
        for name, arch in archs.items()
    ]


def _data(row: Row, target: "Target") -> dict[str, Any]:
    found = row.latency
    energy = {} if row.energy_joules is None else {"energy_joules": row.energy_joules}
    return {
        "name": row.name,
        "latency_ms": found.ms,
        "ratio": found.ratio,
        "ratio_low": found.low,
        "ratio_high": found.high,
        "rounds": found.rounds,
        "notes": list(found.notes),
        "peak_bytes": row.peak_bytes,
        "flops": row.flops,
        "params": row.params,
        "target": target.text,
        **energy,
    }


def _print(rows: list[Row], target: "Target", against: str) -> None:
    from rich.markup import escape

    from formwright.cli.output import console, millions, short_bytes, short_number, table

    numbers = ("ms", "ratio", "95 % interval", "memory", "FLOPs", "params")
    made = table("architecture", *numbers, right=numbers)
    made.columns[0].max_width = 20
    made.columns[0].overflow = "ellipsis"
    for row in rows:
        found = row.latency
        made.add_row(
            escape(row.name),
            f"{found.ms:.3g}" if found.ms < 1000 else f"{found.ms:,.0f}",
            f"{found.ratio:.3f}",
            f"{found.low:.3f}-{found.high:.3f}",
            short_bytes(row.peak_bytes) if row.peak_bytes is not None else "-",
            short_number(row.flops) if row.flops is not None else "-",
            millions(row.params),
        )
    out = console()
    out.print(made)
    out.print(escape(f"\nOn {target.text}; ratio to {against}."))
    for row in rows:
        if row.energy_joules is not None:
            out.print(escape(f"{row.name} takes {row.energy_joules:.3g} J per run."))
        for note in row.latency.notes:
            out.print(escape(f"Note on {row.name}: {note}."))
