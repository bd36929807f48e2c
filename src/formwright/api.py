"""What people call from Python: a search in one line, and what comes of it.

import formwright as fw

found = fw.search(task="classify:reviews.csv", max_latency="5ms", budget="10m")
found.chosen, found.front, found.frame(), found.outcome.headline, found.report()
"""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formwright.arch import Architecture
from formwright.errors import InputError, UnknownName
from formwright.quantities import Quantity, amount, milliseconds, seconds
from formwright.recipes.hiring import Hiring
from formwright.recipes.life import begin, conduct
from formwright.recipes.recipe import Recipe, recipe
from formwright.recipes.usual import UsualSearch
from formwright.report import write_report
from formwright.space import Space
from formwright.study import Study
from formwright.study.loop import Event, OnEvent
from formwright.study.outcome import Outcome, read_outcome
from formwright.terminal.live import lively, watching
from formwright.track import check_trackers, tracked_search
from formwright.trial import Objective, Trial

if TYPE_CHECKING:
    from pandas import DataFrame  # type: ignore[import-untyped,unused-ignore]

_LIMITS = {"max_latency": milliseconds, "max_params": amount, "max_flops": amount}
# What a call decides itself, besides what a ``UsualSearch`` is made from.
_HIRING = ("executor", "address", "request", "processes", "trial_limit")
_OURS = (
    "target", "recipe", "preset", "start", "settings", "log", "progress", "policy", "price",
    *_HIRING,
)  # fmt: skip
_HIDDEN = ("name", "task", "space", "own_space", "order", "changed", "seconds", "trials")
# What a recipe leaves to who calls it; its preset decides everything else.
_OF_RECIPES = (*_OURS, *_LIMITS, "seed", "workers")
_OF_POLICIES = (*_OF_RECIPES, "width", "strategy", "baseline")


class Search(Study):
    """A study that a search has made."""

    @property
    def outcome(self) -> Outcome:
        """Rivals and result."""
        return read_outcome(self.folder)

    @property
    def chosen(self) -> Trial | None:
        """The trial to take, of which the headline speaks; its model is in the folder ``best``."""
        number = self.outcome.chosen
        return None if number is None else self.trials[number]

    def architecture(self, trial: Trial) -> Architecture:
        """The architecture of a trial."""
        found: Architecture = self.member(trial)
        return found

    def report(self, out: str | Path | None = None) -> Path:
        """Write the report and say where it is."""
        return write_report(self.folder, out)

    def frame(self) -> "DataFrame":
        """All trials as a pandas frame, a row for each, by number.

        Columns are what is known of each trial, the values that were measured, by their names, and
        its decisions as ``decision.NAME``. Times are in seconds, latency in milliseconds.
        """
        try:
            import pandas  # noqa: PLC0415  # optional
        except ImportError:
            raise InputError(
                "A frame needs pandas, which is not installed: pip install pandas"
            ) from None
        front = {trial.number for trial in self.front}
        rows = [self._row(trial, trial.number in front) for trial in self.trials]
        return pandas.DataFrame(rows, columns=None if rows else ["number"]).set_index("number")

    def _row(self, trial: Trial, front: bool) -> dict[str, Any]:
        known = ("number", "state", "origin", "rung", "steps", "seconds", "note", "reason")
        return {
            **{name: getattr(trial, name) for name in known},
            "front": front,
            "id": trial.arch,
            "notation": self.notation(trial.number),
            **trial.values,
            **{f"decision.{name}": value for name, value in trial.decisions.items()},
        }


def search(
    task: str = "stdlib",
    space: str | Space = "open",
    objectives: Sequence[Objective] = (),
    budget: Quantity | None = 300.0,
    *,
    trials: int | None = None,
    out: str | Path = "runs/search",
    on_event: OnEvent | None = None,
    **options: Any,
) -> Search:
    """Search for architectures; calling it again with the same folder continues.

    Args:
        task: Name of a task.
        space: Name of a space, or one of your own.
        objectives: What counts; quality against latency when not given.
        budget: Seconds in all, or as it is typed: ``"30m"``; None for no limit.
        trials: How many trials in all.
        out: Folder of the study.
        on_event: Told of every trial.
        options: Whatever else the command line takes. Limits as numbers or as they are typed:
            ``max_latency="5ms"``, ``max_params="10M"``, ``max_flops="2G"``;
            ``target="onnx,threads=2"``; ``strategy``, ``estimator``, ``cost``, ``width``,
            ``workers``, ``seed``, ...; ``settings`` as ``--set`` has them, ``{"lr": 1e-3}``; a
            published system by ``recipe``, ``preset`` and ``start``; a supernet by ``policy`` and
            ``price``; trackers by ``log``; who evaluates by ``executor``, ``address``, ``request``,
            ``processes`` and ``trial_limit="10m"``. ``progress`` shows how far it is, which it does
            by itself in terminals and notebooks.
    """
    _check(objectives, options)
    hiring = _hired(options)
    made = _made(task, space, objectives, budget, trials, options)
    log, progress = options.get("log") or (), options.get("progress")
    log = (log,) if isinstance(log, str) else tuple(log)
    check_trackers(log)
    shown = lively() if progress is None else bool(progress)
    hiring.check(made.name)
    study = begin(made, Path(out))
    try:
        _conducted(made, study, on_event, log, hiring, shown=shown)
    finally:
        study.close()
    return Search(Path(out), study.space)


def _hired(options: dict[str, Any]) -> Hiring:
    """Who evaluates; as many workers as there is room for on a cluster, where none are named."""
    names = {"name" if name == "executor" else name: name for name in _HIRING}
    hiring = Hiring(**{ours: options[name] for ours, name in names.items() if name in options})
    if workers := hiring.workers(options.get("workers") or 0):
        options["workers"] = workers
    return hiring


def _conducted(
    made: Recipe,
    study: Study,
    on_event: OnEvent | None,
    log: Sequence[str],
    hiring: Hiring,
    *,
    shown: bool,
) -> None:
    """Lead a search to its end; Ctrl-C lets it stop in good order first."""
    budget: Any = made
    limits = (None, made.expected) if made.ENDS else (budget.seconds, budget.trials)
    with (
        watching(study, quiet=not shown, seconds=limits[0], trials=limits[1]) as view,
        tracked_search(log, study.folder, study.meta, study.trials) as tell,
    ):

        def heard(event: Event) -> None:
            for listener in (view.on_event, tell, on_event):
                if listener is not None:
                    listener(event)

        conduct(
            made,
            study,
            stop=view.stopped,
            on_event=heard,
            say=view.say,
            on_stage=view.stage,
            on_phase=view.phase,
            crew=hiring.crew,
        )
    if view.signal == signal.SIGINT:
        raise KeyboardInterrupt
    if view.signal:
        raise SystemExit(view.exit_code)


def _made(
    task: str,
    space: str | Space,
    objectives: Sequence[Objective],
    budget: Quantity | None,
    trials: int | None,
    options: dict[str, Any],
) -> Recipe:
    own = {name: value for name, value in options.items() if name not in _OURS}
    for name, read in _LIMITS.items():
        if own.get(name) is not None:
            own[name] = read(own[name])
    end = None if budget is None else seconds(budget)
    if options.get("recipe") or options.get("policy"):
        if objectives:
            raise InputError("A recipe has objectives of its own; leave objectives out here.")
        return _published(task, space, end, trials, own, options)
    made = UsualSearch(
        task=task,
        space=space.name if isinstance(space, Space) else space,
        own_space=space if isinstance(space, Space) else None,
        **{
            "minimise": tuple(o.name for o in objectives if o.direction == "min"),
            "maximise": tuple(o.name for o in objectives if o.direction == "max"),
            "order": tuple(o.name for o in objectives),
            **own,
        },
        seconds=end,
        trials=trials,
    )
    made = made.on_target(options["target"]) if options.get("target") else made
    for change in _changes(options.get("settings")):
        made = made.with_setting(change)
    return made


def _published(
    task: str,
    space: str | Space,
    end: float | None,
    trials: int | None,
    own: dict[str, Any],
    options: dict[str, Any],
) -> Recipe:
    """A published system, or a policy on a space."""
    policy, changes = options.get("policy"), _changes(options.get("settings"))
    allowed = _OF_POLICIES if policy else _OF_RECIPES
    if isinstance(space, Space) or (space != "open" and not policy):
        raise InputError("A recipe has a space of its own; leave space out, or give policy.")
    for name in own:
        if name not in allowed:
            raise InputError(f"{name} does not apply to a recipe, whose preset decides.")
    if policy:
        first = {"policy": policy, "space": space}
        first |= {name: own[name] for name in ("width", "strategy", "baseline") if name in own}
        prices = options.get("price")
        if prices:
            several = prices if isinstance(prices, Sequence) else (prices,)
            first["prices"] = tuple(float(price) for price in several)
        changes = [*_changes(first), *changes]
    made = recipe(
        options.get("recipe") or "mix",
        options.get("preset") or "small",
        task="" if task == "stdlib" else task,
        start=str(options.get("start") or ""),
        seed=own.get("seed", 0),
        target=options.get("target") or "",
        changes=changes,
    )
    limits = {name: own[name] for name in _LIMITS if own.get(name) is not None}
    made = made.bounded(limits) if limits else made
    if not made.ENDS or trials is not None:
        made = made.within(end, trials)
    return replace(made, workers=own["workers"]) if own.get("workers") else made


def _changes(settings: Mapping[str, Any] | Sequence[str] | None) -> list[str]:
    """Hyperparameters as ``--set`` takes them."""
    if isinstance(settings, Mapping):
        return [f"{name}={value}" for name, value in settings.items()]
    return [settings] if isinstance(settings, str) else list(settings or ())


def _check(objectives: Sequence[Objective], options: Mapping[str, Any]) -> None:
    """Say what is wrong before anything is made."""
    for given in objectives:
        if not isinstance(given, Objective):
            raise InputError(
                f"{given!r} is no objective; write formwright.Objective('loss', 'min')."
            )
    known = [field.name for field in fields(UsualSearch) if field.name not in _HIDDEN]
    main = ("task", "space", "objectives", "budget", "trials", "out", "on_event")
    for name in options:
        if name not in (*known, *_OURS):
            raise UnknownName("argument of search()", name, [*known, *_OURS, *main])
    if options.get("preset") and not options.get("recipe") and not options.get("policy"):
        raise InputError("preset applies to a recipe; give recipe='par', for example.")
