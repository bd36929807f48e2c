"""Options that several verbs share, each with what a shell offers for it."""

from typing import Annotated

import typer

from formwright.cli import offers

RECIPE_HELP = (
    "A published system: lts, par, fft, dartformer, autodistil, nasbert, primer, evolved, "
    "autobert; nothing for the usual search."
)
SPACE_HELP = "A space from `formwright spaces`, or a JSON file."
STRATEGY_HELP = "How to choose what to try next: `formwright list strategies`."
POLICY_HELP = "Search a supernet of the space: gumbel, do, sdo, uniform or single-path."
ESTIMATOR_HELP = "train, or a training-free proxy: `formwright list estimators`."
SMALL_HELP = "A value to make small: `formwright list objectives`."
LARGE_HELP = "A value to make large."
TARGET_HELP = "Such as onnx,threads=2, or a JSON file."
SET_HELP = "A hyperparameter, such as training.steps=200: `formwright list settings RECIPE`."
LOG_HELP = "Also send numbers to tensorboard, mlflow or wandb; more than once for several."
EXECUTOR_HELP = "Who evaluates: serial, processes (usual) or ray."
ADDRESS_HELP = "With --executor ray: auto or HOST:PORT; nothing starts a cluster here."
REQUEST_HELP = "With --executor ray: what a trial takes, such as cpus=1,gpus=0.5,memory=4G."
PROCESSES_HELP = "Train a supernet in so many processes; for recipes that have one."
TRIAL_HELP = "A trial that takes longer has failed, such as 10m; the search goes on."

Recipe = Annotated[
    str | None,
    typer.Argument(help=RECIPE_HELP, show_default=False, autocompletion=offers.recipes),
]
Task = Annotated[
    str,
    typer.Option(help="A task: stdlib, classify:reviews.csv, ...", autocompletion=offers.tasks),
]
Space = Annotated[str, typer.Option(help=SPACE_HELP, autocompletion=offers.spaces)]
Strategy = Annotated[str | None, typer.Option(help=STRATEGY_HELP, autocompletion=offers.strategies)]
Policy = Annotated[str | None, typer.Option(help=POLICY_HELP, autocompletion=offers.policies)]
Estimator = Annotated[str, typer.Option(help=ESTIMATOR_HELP, autocompletion=offers.estimators)]
Small = Annotated[list[str] | None, typer.Option(help=SMALL_HELP, autocompletion=offers.objectives)]
Large = Annotated[list[str] | None, typer.Option(help=LARGE_HELP, autocompletion=offers.objectives)]
Target = Annotated[str, typer.Option(help=TARGET_HELP, autocompletion=offers.targets)]
Cost = Annotated[
    str, typer.Option(help="latency, flops, params or memory.", autocompletion=offers.costs)
]
Preset = Annotated[
    str, typer.Option(help="paper, small or smoke; for recipes.", autocompletion=offers.presets)
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help=SET_HELP, autocompletion=offers.settings)
]
Trackers = Annotated[
    list[str] | None, typer.Option("--log", help=LOG_HELP, autocompletion=offers.trackers)
]
Executor = Annotated[str, typer.Option(help=EXECUTOR_HELP, show_default=False)]
Address = Annotated[str, typer.Option(help=ADDRESS_HELP, show_default=False)]
Request = Annotated[str, typer.Option(help=REQUEST_HELP, show_default=False)]
Processes = Annotated[int, typer.Option(min=1, help=PROCESSES_HELP)]
TrialLimit = Annotated[str, typer.Option(help=TRIAL_HELP, show_default=False)]
