"""``formwright compress``: a smaller, faster student of a trained model."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formwright.cli import typed as asked

if TYPE_CHECKING:
    from formwright.recipes.compress import Compress
    from formwright.study import Event, Study

MODEL_HELP = "A trained model: its folder, ours or Hugging Face's, a run, a trial, hf:OWNER/NAME."
TASK_HELP = "classify:PATH, tag:PATH, lm:FILE, ...; what the model was trained on when left out."
SPEEDUP_HELP = "Times as fast as the model, such as 2; several give a family of students."
DROP_HELP = "The most quality to lose, such as 1%: the fastest student that keeps it is taken."
METHOD_HELP = "auto, blocks, or a method that a recipe announces."
SET_HELP = "Any other number: blocks.training.steps=200, teaching.hidden=0, lr=1e-4."
_FAMILY = (1.5, 2.0, 3.0, 4.0)  # speed-ups that are tried where only a loss is given


def run(
    model: Annotated[str, typer.Argument(help=MODEL_HELP, show_default=False)],
    task: Annotated[str, typer.Option(help=TASK_HELP)] = "",
    speedup: Annotated[list[float] | None, typer.Option(help=SPEEDUP_HELP)] = None,
    max_latency: Annotated[list[str] | None, typer.Option(help="At most, such as 5ms.")] = None,
    max_params: Annotated[list[str] | None, typer.Option(help="At most, such as 10M.")] = None,
    max_flops: Annotated[list[str] | None, typer.Option(help="At most, such as 2G.")] = None,
    max_drop: Annotated[str | None, typer.Option(help=DROP_HELP)] = None,
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "auto",
    budget: Annotated[str, typer.Option(help="How long, such as 30m.")] = "30m",
    steps: Annotated[int, typer.Option(min=0, help="Of teaching; 0: as the budget allows.")] = 0,
    target: Annotated[str, typer.Option(help="Such as onnx,threads=2, or a JSON file.")] = "",
    seed: Annotated[int, typer.Option(help="The same seed gives the same students.")] = 0,
    set_: Annotated[list[str] | None, typer.Option("--set", help=SET_HELP)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    log: asked.Trackers = None,
    json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Make a trained model smaller and faster, and keep its answers.

    The same command again continues where it stopped; with another limit it uses all that is
    there.
    """
    from formwright.cli.resolve import model_folder
    from formwright.distil.limits import family
    from formwright.quantities import amount, milliseconds, seconds
    from formwright.recipes.compress import Compress
    from formwright.track import check_trackers
    from formwright.use.tuning import task_of

    check_trackers(log or ())
    folder = model_folder(model).resolve()
    limits = family(
        speedup or (),
        [milliseconds(text) for text in max_latency or ()],
        [amount(text) for text in max_params or ()],
        [amount(text) for text in max_flops or ()],
    ) or family(_FAMILY if max_drop else (2.0,))
    chosen, why = chosen_method(method)
    made = Compress(
        name=f"compress-{chosen}",
        task=task or task_of(folder),
        model=str(folder),
        limits=tuple(limit.text for limit in limits),
        method=chosen,
        max_drop=_share(max_drop),
        seconds=seconds(budget),
        steps=steps,
        seed=seed,
    )
    for change in set_ or ():
        made = made.with_setting(change)
    made = made.on_target(target) if target else made
    place = out or Path("runs") / f"compress-{folder.name}-{seed}"
    _begun(made, place, why, json=json, named=out is not None, log=log or ())


def _begun(
    made: "Compress", place: Path, why: str, *, json: bool, named: bool, log: Sequence[str]
) -> None:
    """Say the plan, and lead the compression from there."""
    import shlex

    from formwright.cli.output import say_notes
    from formwright.recipes.life import begin

    def say(text: str) -> None:
        if not json:
            print(text, flush=True)

    say_notes(made.tuning.task, quiet=json)
    say(_plan(made, why))
    command = shlex.join(["formwright", *sys.argv[1:], *([] if named else ["--out", str(place)])])
    conduct_compression(made, begin(made, place, command=command, say=say), json, log)


def chosen_method(name: str) -> tuple[str, str]:
    """The method as a recipe knows it, and what ``auto`` will do."""
    from formwright.distil.methods import AUTO, ESTIMATES, known_method
    from formwright.recipes.recipe import RECIPES

    RECIPES.load()  # recipes announce their methods
    known_method(name)
    if name != AUTO:
        return name, ""
    others = ", ".join(ESTIMATES)
    return AUTO, f"blocks; then {others}, each where the time that is left allows it"


def _share(text: str | None) -> float | None:
    """``1%`` or ``0.01`` as a share."""
    from formwright.errors import InputError

    if text is None:
        return None
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1:
        raise InputError(f"--max-drop {text} is no share of the quality; write for example 1%.")
    return found


def _plan(made: "Compress", why: str) -> str:
    """What will be done, before anything is."""
    from formwright.arch.counting import count
    from formwright.cli.output import short_number, wrapped
    from formwright.distil.limits import Limit
    from formwright.distil.teacher import answers_task

    arch = made.arch
    wanted = "; ".join(Limit.read(text).words for text in made.limits)
    stages = "price blocks, train them, score them, choose, teach students"
    if not answers_task(made.tuning):
        stages = f"tune the model on the task, {stages}"
    lines = [
        f"teacher: {len(arch.layers.layers)} sub-layers, {arch.backbone.width} wide, "
        f"{short_number(count(arch).params)} parameters, on {made.task}",
        f"wanted: {wanted}",
        f"stages: {stages}; timed on {made.where().text}",
    ]
    return "\n".join(wrapped(line) for line in [*lines, *([f"method: {why}"] if why else [])])


def conduct_compression(
    recipe: "Compress", study: "Study", json: bool, log: Sequence[str] = ()
) -> None:
    """Lead it to its end, and show what came of it."""
    from formwright.recipes.life import conduct
    from formwright.terminal.live import watching
    from formwright.track import tracked_search

    with (
        watching(study, quiet=json, seconds=recipe.seconds, trials=None) as view,
        tracked_search(log, study.folder, study.meta, study.trials) as tell,
    ):

        def heard(event: "Event") -> None:
            view.on_event(event)
            tell(event)

        ending = conduct(
            recipe,
            study,
            stop=view.stopped,
            on_event=heard,
            say=view.say,
            on_stage=view.stage,
        )
    try:
        _finish(study, json, view.exit_code if ending == "stopped" else 0)
    finally:
        study.close()


def _finish(study: "Study", json: bool, code: int) -> None:
    from formwright.cli.output import print_json, wrapped
    from formwright.cli.show import study_data
    from formwright.report import write_report
    from formwright.study.outcome import read_outcome

    report, known, outcome = (
        write_report(study.folder),
        _students(study),
        read_outcome(study.folder),
    )
    if json:
        print_json({**study_data(study), "students": known.get("rows", []), "report": str(report)})
    else:
        if known:
            print_students(known)
        for text in (outcome.headline, *outcome.notes):
            if text:
                print(wrapped(text))
        print(f"report: {report}")
    if code:
        if not json:
            print(f"Stopped. Nothing is lost; go on with: formwright resume {study.folder}")
        raise typer.Exit(code)
    best = study.folder / "best"
    if not json and best.is_dir():
        print(f"model: {best}")
        print(f"next: formwright predict {study.folder} 'a text of yours'")
        print(f"      formwright export {study.folder} --out FOLDER")


def _students(study: "Study") -> dict[str, Any]:
    from json import loads

    place = study.folder / "phases" / "students.json"
    found: dict[str, Any] = loads(place.read_bytes()) if place.exists() else {}
    return found


def print_students(known: dict[str, Any]) -> None:
    """The table of teacher, students and simple ones, in 80 columns."""
    from formwright.cli.output import console, short_number, table

    name = known["quality"]["name"]
    words = {limit["text"]: limit["words"] for limit in known["limits"]}
    shown = table(
        "student", name, "95 %", "ms", "times", "params", "same",
        right=(name, "95 %", "ms", "times", "params", "same"),
    )  # fmt: skip
    whole, before = known["rows"][0]["latency"], ""
    for row in known["rows"]:
        if row["limit"] != before:
            before = row["limit"]
            shown.add_row(f"{words.get(before, before)}:")
        took, same = row["latency"], row["agreement"]
        shown.add_row(
            f"  {row['role']}" if row["limit"] else row["role"],
            f"{row['quality']:.4g}",
            f"{row['low']:.4g} - {row['high']:.4g}",
            f"{took:.3g}" if took else "",
            f"{whole / took:.2f}" if took else "",
            short_number(row["params"]) if row["params"] else "",
            f"{100 * same:.1f} %" if same is not None else "",
        )
    console().print(shown)
