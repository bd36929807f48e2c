"""``formwright train``: an architecture, a task, a trained model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from formwright.cli import ARCH_HELP, offers
from formwright.cli import typed as asked

if TYPE_CHECKING:
    from formwright.train import Seeds, TrainConfig

PICKLE_HELP = "Also read weights that are pickled; only of those whom you trust."
SET_HELP = "Any other number of the run, such as lr=1e-3, optimiser=lamb, precision=bf16."
PROCESSES_HELP = "Train in so many processes; --set shard=true spreads the weights over them."
TASK_HELP = "A task: a name such as stdlib, or KIND:PATH such as classify:reviews.csv."


def run(
    arch: Annotated[str, typer.Argument(help=ARCH_HELP, show_default=False)],
    task: Annotated[
        str, typer.Option(help=TASK_HELP, show_default=False, autocompletion=offers.tasks)
    ],
    steps: Annotated[int | None, typer.Option(help="Updates of the weights.")] = None,
    time: Annotated[str | None, typer.Option(help="How long, such as 90s, 5m or 1h.")] = None,
    width: Annotated[int, typer.Option(help="Width, where the string gives none.")] = 128,
    new: Annotated[
        bool, typer.Option("--new", help="New weights, where a model is named.")
    ] = False,
    seeds: Annotated[int, typer.Option(help="Train so often, with seeds 0, 1, ...")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help=SET_HELP, autocompletion=offers.settings)
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, ...")] = "cpu",
    processes: Annotated[int, typer.Option(min=1, help=PROCESSES_HELP)] = 1,
    log: asked.Trackers = None,
    tensorboard: Annotated[Path | None, typer.Option(help="TensorBoard's files go here.")] = None,
    unsafe_pickle: Annotated[bool, typer.Option("--unsafe-pickle", help=PICKLE_HELP)] = False,
    json: Annotated[bool, typer.Option("--json", help="End with one JSON object.")] = False,
) -> None:
    """Train an architecture on a task, or go on from a model's folder or a run's best model.

    The same command again continues where it stopped.
    """
    from functools import partial

    from formwright.cli.output import say_notes
    from formwright.cli.progress import watching
    from formwright.cli.resolve import is_trained, model_folder, resolve_for
    from formwright.quantities import seconds
    from formwright.tasks import load_task
    from formwright.track import check_trackers
    from formwright.train import device_of_text, train_seeds
    from formwright.train.distributed import leads, leave_world
    from formwright.train.run import tidy
    from formwright.use.tuning import Tuning

    device_of_text(device)  # before anything that takes long
    check_trackers(log or ())
    if processes > 1 and _begun_together(processes):
        return
    quiet = json or not leads()
    begun: Any
    if is_trained(arch) and not new:
        tuning = Tuning.of(model_folder(arch), task, unsafe_pickle=unsafe_pickle)
        found, loaded = tuning.model.arch, tuning.task
        config = _changed(tuning.config(steps, seconds(time) if time else None), set_ or [])
        begun = partial(tuning.begun, config)
        start = str(tuning.folder.resolve())
    else:
        loaded = load_task(task)
        begun = found = resolve_for(arch, loaded, width)
        config, start = _config(found.backbone.width, steps, time, set_ or []), ""
    say_notes(loaded, quiet=quiet)
    folder = out or _usual_folder(found, task, config, start)
    numbers = range(config.seed, config.seed + max(1, seeds))
    about = {"arch": arch, "task": task, "out": str(folder), **config.to_data()}
    sinks: Any = {"log": log or (), "tensorboard": tensorboard} if leads() else {}
    with watching(quiet=quiet, folder=folder, **sinks, **about) as on_event:
        results = train_seeds(
            begun, loaded, config, numbers, out=folder, on_event=on_event, device=device
        )
    leave_world()
    if leads():
        for run in folder.glob("seed-*"):
            tidy(run)
        _report(results, folder, json)
    _exit_if_interrupted(results)


def _begun_together(processes: int) -> bool:
    """Start this command in several processes, and wait for them; False in one of these."""
    import os
    import sys

    from formwright.execute.worker import die_with
    from formwright.train.distributed import MEETING
    from formwright.train.launch import launch

    if MEETING in os.environ:
        die_with(int(os.environ[_PARENT]))
        return False
    if "WORLD_SIZE" in os.environ:
        from formwright.errors import InputError

        raise InputError("--processes is for commands that torchrun does not start; leave it out.")
    os.environ[_PARENT] = str(os.getpid())
    words = [sys.executable, "-m", "formwright.cli.main", *sys.argv[1:]]
    if code := launch(words, processes):
        raise typer.Exit(code)
    return True


_PARENT = "FORMWRIGHT_PARENT"  # the process that started those which train together


def _exit_if_interrupted(results: "Seeds") -> None:
    last = results.results[-1]
    if last.state == "interrupted":
        raise typer.Exit(143 if "SIGTERM" in last.reason else 130)


def _config(width: int, steps: int | None, time: str | None, changes: list[str]) -> "TrainConfig":
    from formwright.quantities import seconds
    from formwright.train import TrainConfig, default_lr

    base = TrainConfig(
        steps=steps if steps is not None or time is not None else 1000,
        seconds=seconds(time) if time is not None else None,
        lr=default_lr(width),
    )
    return _changed(base, changes)


def _changed(base: "TrainConfig", changes: list[str]) -> "TrainConfig":
    """With the numbers that were set by hand."""
    from formwright.recipes.setting import settings
    from formwright.train import TrainConfig

    return base.replace(**settings(TrainConfig, changes))


def _usual_folder(arch: Any, task: str, config: "TrainConfig", start: str = "") -> Path:
    """A folder that the same command finds again and another one does not."""
    import hashlib
    from json import dumps

    from formwright.arch import arch_id

    asked = dumps([arch_id(arch), task, config.to_data(), *([start] if start else [])])
    kind = "".join(
        c if c.isalnum() else "-" for c in task.split(":", maxsplit=1)[0].split("?", maxsplit=1)[0]
    )
    return Path("runs") / f"{kind}-{hashlib.sha256(asked.encode()).hexdigest()[:10]}"


def _report(results: "Seeds", folder: Path, json: bool) -> None:
    from formwright.cli.output import print_json

    last = results.results[-1]
    data = {
        "metric": last.metric,
        "value": results.mean,
        "loss": last.loss,
        "steps": last.steps,
        "seconds": last.seconds,
        "tokens_per_second": last.tokens_per_second,
        "out": str(folder),
        "state": last.state,
        "reason": last.reason,
        "spread": results.spread,
        "seeds": [
            {"seed": i, "value": r.value, "state": r.state} for i, r in enumerate(results.results)
        ],
    }
    if json:
        print_json(data)
    else:
        _print(results, folder)


def _print(results: "Seeds", folder: Path) -> None:
    last = results.results[-1]
    if last.state == "interrupted":
        print(f"Stopped after {last.steps} steps. The same command continues from here: {folder}")
        return
    if results.mean is None:
        advice = "Try a smaller rate or a longer warmup: --set lr=1e-4 --set warmup=200"
        print(f"The run diverged: {last.reason}. {advice}")
        return
    spread = (
        f" (spread {results.spread:.4g} over {len(results.values)} seeds)" if results.spread else ""
    )
    print(
        f"{last.metric} {results.mean:.4f}{spread} after {last.steps} steps in {last.seconds:.0f} s"
    )
    if len(results.results) == 1:
        folder = folder / "seed-0" if not (folder / "model").exists() else folder
    print(f"model and log: {folder}")
