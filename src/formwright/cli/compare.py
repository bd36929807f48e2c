"""``formwright compare``: several runs at equal cost, with what seeds allow to say."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from formwright.report.compare import Standing
    from formwright.report.compare.standing import Score


def run(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN RUN...", help="Folders of searches.", show_default=False),
    ],
    out: Annotated[Path, typer.Option("--out", help="Page to write.")] = Path("comparison.html"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Compare searches at equal cost: groups by seed, intervals, a test, and one page."""
    from formwright.cli.output import print_json, wrapped
    from formwright.report.compare import gather_runs, standing, write_comparison

    gathered = gather_runs(runs)
    found = standing(gathered)
    path = write_comparison(gathered, out)
    if json:
        print_json(standing_data(found) | {"page": str(path)})
        return
    if not gathered.obstacles:
        _print_groups(found)
    for text in (*found.words, *gathered.cautions):
        print(wrapped(text))
    print(f"page: {path}")


def standing_data(found: "Standing") -> dict[str, Any]:
    """A comparison as plain values."""
    return {
        "objective": {
            "name": found.runs.quality.name,
            "direction": found.runs.quality.direction,
        },
        "cost": {"most": found.cost.most, "unit": "seconds" if found.cost.timed else "trials"},
        "groups": [
            {
                "name": group.group.name,
                "runs": [run.name for run in group.group.runs],
                "seeds": [run.seed for run in group.group.runs],
                "best": _score_data(group.best),
                "hypervolume": _score_data(group.volume),
            }
            for group in found.groups
        ],
        "words": found.words,
        "obstacles": found.runs.obstacles,
        "cautions": found.runs.cautions,
    }


def _score_data(score: "Score | None") -> dict[str, Any] | None:
    if score is None:
        return None
    ends = None if score.low != score.low else [score.low, score.high]
    return {"values": score.values, "mean": score.mean, "interval": ends, "p": score.chance}


def _print_groups(found: "Standing") -> None:
    from rich.markup import escape

    from formwright.cli.output import console, table
    from formwright.report.words import figure, plain_name, share_words

    fronts = any(group.volume is not None for group in found.groups)
    best = plain_name(found.runs.quality.name)
    numbers = ("runs", best, "95 %", "p", *(("covers", "p ") if fronts else ()))
    made = table("group", *numbers, right=numbers)
    made.columns[0].overflow = "fold"
    made.columns[0].no_wrap = False
    for group in found.groups:
        cells = [str(len(group.group.runs)), *_cells(group.best, figure)]
        if fronts:
            value, _, chance = _cells(group.volume, share_words)
            cells += [value, chance]
        made.add_row(escape(group.group.name), *cells)
    print(f"at equal cost, {found.cost.words} each:")
    console().print(made)


def _cells(score: "Score | None", say: Any) -> tuple[str, str, str]:
    if score is None:
        return "-", "-", "-"
    ends = "one run" if score.low != score.low else f"{say(score.low)}-{say(score.high)}"
    return say(score.mean), ends, "-" if score.chance is None else f"{score.chance:.3f}"
