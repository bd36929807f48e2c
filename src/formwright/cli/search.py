"""``formwright search``: find architectures for a task and a machine. Also ``resume``."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formwright.cli import typed as asked

if TYPE_CHECKING:
    from formwright.recipes.hiring import Hiring
    from formwright.recipes.recipe import Recipe
    from formwright.study import Event, Study

# What a recipe can be told; its presets decide everything else.
RECIPE_OPTIONS = (
    "recipe", "task", "from_", "preset", "target", "seed", "out", "json", "workers", "set_",
    "log", "budget", "trials", "max_latency", "max_params", "max_flops", "executor", "address",
    "request", "processes", "trial_limit",
)  # fmt: skip

FROM_HELP = "A trained model to begin at: its folder; for fft, autodistil and nasbert."
PRICE_HELP = "With --policy: nats that the dearest member would pay; several give a front."
WORKERS_HELP = "Processes; 0: one per core, up to 8, or as many as the recipe's preset has."
SHARE_HELP = "Trials take over weights of the trial they are most like; finals never do."


def run(
    context: typer.Context,
    recipe: asked.Recipe = None,
    task: asked.Task = "stdlib",
    from_: Annotated[str | None, typer.Option("--from", help=FROM_HELP)] = None,
    space: asked.Space = "open",
    strategy: asked.Strategy = None,
    policy: asked.Policy = None,
    price: Annotated[list[float] | None, typer.Option(help=PRICE_HELP)] = None,
    estimator: asked.Estimator = "train",
    minimise: asked.Small = None,
    maximise: asked.Large = None,
    max_latency: Annotated[str | None, typer.Option(help="At most, such as 5ms.")] = None,
    max_params: Annotated[str | None, typer.Option(help="At most, such as 10M.")] = None,
    max_flops: Annotated[str | None, typer.Option(help="At most, such as 2G.")] = None,
    target: asked.Target = "",
    cost: asked.Cost = "latency",
    budget: Annotated[str | None, typer.Option(help="How long, such as 90s or 10m.")] = None,
    trials: Annotated[int | None, typer.Option(help="How many trials.")] = None,
    workers: Annotated[int, typer.Option(min=0, help=WORKERS_HELP)] = 0,
    executor: asked.Executor = "",
    address: asked.Address = "",
    request: asked.Request = "",
    processes: asked.Processes = 1,
    trial_limit: asked.TrialLimit = "",
    seed: Annotated[int, typer.Option(help="The same seed gives the same search.")] = 0,
    preset: asked.Preset = "small",
    width: Annotated[int, typer.Option(help="Width of the baseline.")] = 128,
    baseline: Annotated[str, typer.Option(help="Layers of the hand-designed rival.")] = "",
    steps: Annotated[int | None, typer.Option(help="Training steps of the first stage.")] = None,
    rungs: Annotated[int | None, typer.Option(help="Stages of short trials.")] = None,
    share: Annotated[bool, typer.Option("--share", help=SHARE_HELP)] = False,
    set_: asked.Settings = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the search.")] = None,
    log: asked.Trackers = None,
    json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Search for architectures. The same command again continues where it stopped."""
    import shlex

    from formwright.cli.output import say_notes
    from formwright.estimate.training import known_task
    from formwright.recipes.hiring import Hiring
    from formwright.recipes.life import begin
    from formwright.track import check_trackers

    typed, given = context.params, given_options(context)
    hiring = Hiring(executor, address, request, processes, trial_limit)
    typed["workers"] = hiring.workers(workers)
    if policy is not None and recipe in (None, "mix"):
        made = _mixed(typed, given)
    else:
        made = _usual(typed, given) if recipe in (None, "usual") else _published(typed, given)
    hiring.check(made.name)
    folder = out or _usual_folder(made)

    def say(text: str) -> None:
        if not json:
            print(text, flush=True)

    check_trackers(log or ())
    say_notes(known_task(made.task), quiet=json)
    command = shlex.join(["formwright", *sys.argv[1:], *([] if out else ["--out", str(folder)])])
    study = begin(made, folder, command=command, say=say)
    _conduct(made, study, json, hiring, log or ())


def _usual(typed: dict[str, Any], given: list[str]) -> "Recipe":
    """The usual search, with what was typed; nothing of it is passed over in silence."""
    from formwright.errors import InputError
    from formwright.quantities import seconds
    from formwright.recipes.usual import UsualSearch

    if typed["from_"] is not None:
        raise InputError(
            "--from applies to the recipes fft, autodistil and nasbert: formwright search fft "
            "--from FOLDER --task TASK."
        )
    if typed["price"]:
        raise InputError("--price applies to --policy, such as --policy gumbel; leave it out here.")
    _refuse_idle(typed, given)
    same = ("task", "space", "width", "baseline", "estimator", "cost", "seed", "trials", "share")
    budget, target = typed["budget"], typed["target"]
    made: Recipe = UsualSearch(
        **{name: typed[name] for name in same},
        strategy=typed["strategy"] or "",
        minimise=tuple(typed["minimise"] or ()),
        maximise=tuple(typed["maximise"] or ()),
        **_limits(typed),
        stages=_stages(typed["steps"], typed["rungs"]),
        seconds=seconds(budget) if budget else (None if typed["trials"] else 300.0),
        workers=typed["workers"] or _usual_workers(),
    )
    if target:
        made = made.on_target(target)
    for change in typed["set_"] or ():
        made = made.with_setting(change)
    return made


def _mixed(typed: dict[str, Any], given: list[str]) -> "Recipe":
    """A policy on a space: a recipe whose settings are what was typed."""
    known = (*RECIPE_OPTIONS, "space", "policy", "price", "width", "strategy", "baseline")
    idle = [name for name in given if name not in known or name in ("from_", "budget", "trials")]
    _refuse("mix", idle)
    prices = typed["price"] or ()
    names = ("policy", "space", "width", "strategy", "baseline")
    settings = [f"{name}={typed[name]}" for name in names if name in given]
    settings += [f"prices=({', '.join(map(repr, prices))},)"] if prices else []
    changes = [*settings, *(typed["set_"] or ())]
    kept = [name for name in given if name in RECIPE_OPTIONS]
    return _published({**typed, "recipe": "mix", "set_": changes}, kept)


def _stages(steps: int | None, rungs: int | None) -> tuple[int, ...]:
    """The stages that were asked for; none leaves them to the budget."""
    from formwright.errors import InputError

    if steps is None and rungs is None:
        return ()
    first, count = 60 if steps is None else steps, 2 if rungs is None else rungs
    if first < 1 or not 1 <= count <= 10:
        raise InputError(f"--steps {first} --rungs {count} make no stages; give 1 or more of each.")
    return tuple(first * 3**rung for rung in range(count))


def _published(typed: dict[str, Any], given: list[str]) -> "Recipe":
    """The recipe that was typed; what its preset decides is not to be told."""
    from formwright.quantities import seconds
    from formwright.recipes.recipe import recipe

    _refuse(typed["recipe"], [name for name in given if name not in RECIPE_OPTIONS])
    made = recipe(
        typed["recipe"],
        typed["preset"],
        task=typed["task"] if "task" in given else "",
        start=typed["from_"] or "",
        seed=typed["seed"],
        target=typed["target"],
        changes=typed["set_"] or (),
    )
    limits = _limits(typed)
    if any(limits.values()):
        made = made.bounded({name: most for name, most in limits.items() if most})
    if "budget" in given or "trials" in given:
        budget = typed["budget"]
        made = made.within(seconds(budget) if budget else None, typed["trials"])
    return replace(made, workers=typed["workers"]) if typed["workers"] else made


def _limits(typed: dict[str, Any]) -> dict[str, Any]:
    """Limits as numbers."""
    from formwright.quantities import amount, milliseconds

    read = {"max_latency": milliseconds, "max_params": amount, "max_flops": amount}
    return {n: None if typed[n] is None else number(typed[n]) for n, number in read.items()}


def _refuse_idle(typed: dict[str, Any], given: list[str]) -> None:
    """Refuse options that would change nothing."""
    from formwright.errors import InputError

    wanted = {typed["cost"], *(typed["minimise"] or ()), *(typed["maximise"] or ())}
    idle = {"preset": "a recipe, such as formwright search lts"}
    if typed["estimator"] != "train":
        idle |= dict.fromkeys(("steps", "rungs", "set_", "share"), "--estimator train")
    if not wanted & {"latency", "memory"} and typed["max_latency"] is None:
        idle["target"] = "--cost latency or memory"
    for name in given:
        if name in idle:
            words = f"--{name.strip('_')}"
            raise InputError(f"{words} applies to {idle[name]} only; leave it out here.")


def resume(
    run: Annotated[Path, typer.Argument(help="Folder of a search.", show_default=False)],
    budget: Annotated[str | None, typer.Option(help="How long in all, such as 20m.")] = None,
    trials: Annotated[int | None, typer.Option(help="How many trials in all.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes.")] = None,
    executor: asked.Executor = "",
    address: asked.Address = "",
    request: asked.Request = "",
    processes: asked.Processes = 1,
    trial_limit: asked.TrialLimit = "",
    log: asked.Trackers = None,
    json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Continue a search, also with a larger budget than it began with."""
    from formwright.cli.compress import conduct_compression
    from formwright.quantities import seconds
    from formwright.recipes.compress import Compress
    from formwright.recipes.hiring import Hiring
    from formwright.recipes.reopen import recipe_of
    from formwright.study import Study
    from formwright.track import check_trackers

    hiring = Hiring(executor, address, request, processes, trial_limit)
    workers = hiring.workers(workers or 0)
    check_trackers(log or ())
    study = Study.open(run)
    made = recipe_of(study)
    hiring.check(made.name)
    if budget is not None or trials is not None:
        made = made.within(seconds(budget) if budget else None, trials)
    if isinstance(made, Compress):
        conduct_compression(made, study, json, log or ())
        return
    made = replace(made, workers=workers) if workers else made
    _conduct(made, study, json, hiring, log or ())


def _conduct(
    recipe: "Recipe", study: "Study", json: bool, hiring: "Hiring", log: Sequence[str] = ()
) -> None:
    from formwright.recipes.life import conduct
    from formwright.terminal.live import watching
    from formwright.track import tracked_search

    budget: Any = recipe  # of a search that has no end of its own
    seconds, trials = (None, recipe.expected) if recipe.ENDS else (budget.seconds, budget.trials)
    with (
        watching(study, quiet=json, seconds=seconds, trials=trials) as view,
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
            on_phase=view.phase,
            crew=hiring.crew,
        )
    more = "" if recipe.ENDS else _budget_of(recipe)
    try:
        finish(study, json, view.exit_code if ending == "stopped" else 0, more)
    finally:
        study.close()


def _budget_of(recipe: Any) -> str:
    """The options that continue a search to the same end."""
    seconds = f" --budget {recipe.seconds:g}s" if recipe.seconds else ""
    return seconds + (f" --trials {recipe.trials}" if recipe.trials else "")


def finish(study: "Study", json: bool, code: int, more: str = "") -> None:
    """Write the report, say what was found and what to do next; a ``code`` ends with it.

    Args:
        study: What was searched.
        json: Print one object.
        code: Exit with it, as a search that was stopped does.
        more: Options that continue it to the same end.
    """
    from formwright.cli.output import print_json
    from formwright.cli.show import print_study, study_data
    from formwright.report import write_report

    report = write_report(study.folder)
    if json:
        print_json({**study_data(study), "report": str(report)})
    else:
        print_study(study)
        print(f"report: {report}")
    if code:
        if not json:
            print(f"Stopped. Nothing is lost; go on with: formwright resume {study.folder}{more}")
        raise typer.Exit(code)
    if not json:
        _print_samples(study)
        _print_next(study)


def _print_samples(study: "Study") -> None:
    """What the model that was found says."""
    from formwright.cli.output import wrapped
    from formwright.draw.words import shortened
    from formwright.files import read_json

    place = study.folder / "phases" / "samples.json"
    rows = read_json(place, "samples", 10_000_000) if place.exists() else []
    for row in rows if isinstance(rows, list) else ():
        found = [row.get(name) for name in ("given", "said")] if isinstance(row, dict) else []
        texts = [" ".join(text.split()) for text in found if isinstance(text, str)]
        if len(texts) != 2:
            continue
        given, said = texts
        print(wrapped(f"given {shortened(given, 120)!r}, it says {said[:240]!r}"))


def _print_next(study: "Study") -> None:
    """What a user would do next."""
    from formwright.study.outcome import read_outcome

    chosen = read_outcome(study.folder).chosen
    commands = []
    if (study.folder / "best").is_dir():
        print(f"model: {study.folder / 'best'} (trial {chosen}; any other: '{study.folder}#N')")
        if (study.folder / "best" / "task.json").exists():
            commands.append(f"formwright predict {study.folder} 'a text of yours'")
    if chosen is not None:
        task = study.meta.get("task")
        commands.append(f"formwright train '{study.folder}#{chosen}' --task '{task}' --time 30m")
    if study.meta.get("recipe") == "usual-search":  # others have an end of their own
        minutes = 30 + int(study.state.seconds // 60)  # a budget is that of all sessions
        commands.append(f"formwright resume {study.folder} --budget {minutes}m")
    if commands:
        print("next: " + "\n      ".join(map(_broken, commands)))


def _broken(command: str, room: int = 74) -> str:
    """A command in lines that fit, as shells take it."""
    if len(command) <= room:
        return command
    first, option, rest = command.partition(" --task")
    return f"{first} \\\n       {option}{rest}" if option else command


def _usual_workers() -> int:
    import os

    return max(1, min(8, (os.cpu_count() or 1)))


def _usual_folder(recipe: "Recipe") -> Path:
    """A folder that the same command finds again and another one does not."""
    import hashlib
    from json import dumps

    mixed = recipe.name.startswith("mix-")  # a recipe for many searches
    if recipe.ENDS and not mixed:
        return Path("runs") / f"{recipe.name}-{recipe.seed}"
    target = recipe.target.text if recipe.target is not None else ""
    asked = [recipe.task, recipe.seed, target, recipe.hyperparameters()]
    kind = "".join(c for c in recipe.task.split(":")[0].split("?")[0] if c.isalnum() or c == "-")
    digest = hashlib.sha256(dumps(asked, sort_keys=True).encode()).hexdigest()[:8]
    return Path("runs") / f"{'mix' if mixed else 'search'}-{kind}-{digest}"


def given_options(context: typer.Context) -> list[str]:
    """The options that were typed."""
    typed = ("COMMANDLINE", "ENVIRONMENT")
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source and source.name in typed]


def _refuse(recipe: str, options: list[str]) -> None:
    """Nothing that was asked for is passed over in silence."""
    from formwright.errors import InputError

    if options:
        words = f"--{options[0].strip('_').replace('_', '-')}"
        raise InputError(
            f"{words} does not apply to the recipe {recipe!r}, whose preset decides. Leave it out, "
            "set a hyperparameter with --set, or search without a recipe; --task, --preset, "
            "--target, --seed, --workers, --executor and --out apply, and --from for fft, "
            "autodistil, nasbert."
        )
