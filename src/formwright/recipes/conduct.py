"""Conducting a search: the baseline first, then the loop, then what was found, in words."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from formwright.arch import Architecture, arch_id, notation
from formwright.arch.counting import count
from formwright.cost import Meter, Target, calibrate
from formwright.cost.meter import using_threads
from formwright.errors import FormwrightError, InputError
from formwright.estimate.training import known_task
from formwright.execute import search as run_study
from formwright.recipes.headline import conclude, target_of
from formwright.recipes.plan import Plan
from formwright.space import Decisions, Space, space_data
from formwright.study import Ending, Evaluate, Job, Rules, Study
from formwright.study.job import discreet
from formwright.study.loop import Event, OnEvent
from formwright.study.outcome import Baseline, Outcome, read_outcome, write_outcome
from formwright.trial import Trial

Say = Callable[[str], None]
Stop = Callable[[], bool]
BASELINE = -1  # the number of its trial
_DRAWN = 150  # members, and as many changes, among which the smallest is looked for


@dataclass(frozen=True)
class Heeding(Job):
    """A job in this process, which can be asked to stop.

    Args:
        stop: Asked several times a second.
    """

    stop: Stop | None = None


def begin(
    plan: Plan,
    folder: Path,
    *,
    space: Space | None = None,
    command: str = "",
    say: Say | None = None,
) -> Study:
    """Open the study of a plan, or create it with its clock calibrated.

    The same plan in the same folder continues; another one is refused.

    Args:
        plan: What to search, and for what.
        folder: Of the study.
        space: In place of the one that the plan names.
        command: What a user typed.
        say: Told what goes on.
    """
    say = say or (lambda text: None)
    given = (
        plan.limited(space.for_frame(known_task(plan.task).frame)) if space is not None else None
    )
    if (folder / "study.db").exists():
        study = Study.open(folder, space=given)
        _agree(plan, given or plan.make_space(), study)
        return study
    space = given or plan.make_space()
    space.sample(Random(plan.seed))  # an empty space is told before anything is trained
    name, arch = plan.make_baseline()
    target = None
    if plan.measures:
        say("calibrating the clock on this machine")
        asked = plan.make_target()
        target = asked if asked.reference_ms else calibrate(_against(asked, arch), seconds=2.0)
        if plan.max_latency is not None:
            _check_latency(plan.max_latency, space, target, plan.seed)
    study = Study.create(
        folder,
        space=space,
        objectives=plan.objectives(),
        strategy=plan.strategy_name,
        options=plan.strategy_options,
        seed=plan.seed,
        rules=Rules(
            window=1 if plan.workers == 1 else 2 * plan.workers,
            control=plan.control,
            limits=plan.limits(),
        ),
        plan=plan.to_data(),
        target=asdict(target) if target is not None else None,
        task=plan.task,
        command=command,
    )
    write_outcome(folder, Outcome(Baseline(name, notation(arch), arch_id(arch), {})))
    return study


def _check_latency(most: float, space: Space, target: Target, seed: int) -> None:
    """Refuse a limit that not even the smallest member keeps, before anything is trained."""
    rng, length = Random(seed), target.new_tokens

    def work(decisions: Decisions) -> int:
        return count(space.resolve(decisions), length=length).flops

    least = min((space.sample(rng) for _ in range(_DRAWN)), key=work)
    for _ in range(_DRAWN):
        child = space.mutate(least, rng)
        least = min(least, child, key=work)
    arch: Architecture = space.resolve(least)
    found = Meter(target).measure(arch, seconds=1.0, precision=0.05)
    if found.ms * found.low / found.ratio > most:
        raise InputError(
            f"Nothing keeps a latency of at most {most:g} ms: the smallest of {2 * _DRAWN} members "
            f"of the space {space.name} takes {found.ms:.3g} ms. Raise the limit, or search a "
            "space of smaller models."
        )


def conduct(
    study: Study,
    *,
    seconds: float | None = None,
    trials: int | None = None,
    workers: int | None = None,
    stop: Callable[[], bool] | None = None,
    on_event: OnEvent | None = None,
    say: Say | None = None,
) -> tuple[Ending, Outcome]:
    """Search until the budget is spent, then say what was found. Calling it again goes on.

    Args:
        study: As ``begin`` gave it.
        seconds: Budget in all; the plan's when neither this nor ``trials`` is given.
        trials: The same in trials.
        workers: Processes; the plan's when not given.
        stop: Asked several times a second; True ends the search.
        on_event: Told of every trial.
        say: Told what goes on besides trials.
    """
    say = say or (lambda text: None)
    plan = plan_of(study)
    if seconds is None and trials is None:
        seconds, trials = plan.seconds, plan.trials
    estimator = plan.make_estimator(target_of(study))
    workers = workers or plan.workers
    with one_thread():
        name, arch = plan.make_baseline()
        steps = plan.steps * plan.eta**plan.top if plan.trains else None
        outcome = with_baseline(
            study, name, arch, estimator, rung=plan.top, steps=steps, stop=stop, say=say
        )
        if outcome is None:
            return "stopped", read_outcome(study.folder)
        _check_measured(study, outcome)
        told = _retracting(study, outcome, on_event)
        ending = until_stopped(
            lambda: run_study(
                study,
                stoppable(estimator, stop, workers),
                workers=workers,
                seconds=seconds,
                trials=trials,
                stop=stop,
                on_event=told,
            ),
            stop,
        )
        outcome = read_outcome(study.folder)
        ended = study.state.done + study.state.failed
        if ending != "stopped" and not (outcome.headline and outcome.trials == ended):
            outcome = replace(conclude(study, Outcome(outcome.baseline), say), trials=ended)
            write_outcome(study.folder, outcome)
    return ending, outcome


def _retracting(study: Study, outcome: Outcome, on_event: OnEvent | None) -> OnEvent:
    """Tells of every trial; what was said at an earlier end goes when another one has ended."""
    said = bool(outcome.headline)

    def heard(event: Event) -> None:
        nonlocal said
        if event.kind == "finished" and said:
            write_outcome(study.folder, Outcome(outcome.baseline))
            said = False
        if on_event is not None:
            on_event(event)

    return heard


def _check_measured(study: Study, outcome: Outcome) -> None:
    """Refuse an objective that nothing measures before trials are spent on it."""
    assert outcome.baseline is not None
    known = outcome.baseline.values
    for objective in study.objectives:
        if objective.name not in known:
            raise InputError(
                f"Nothing here measures {objective.name!r}; what is measured: "
                f"{', '.join(sorted(known))}. Begin again with one of these, in another folder."
            )


def stoppable(estimator: Evaluate, stop: Stop | None, workers: int) -> Evaluate:
    """The same estimator; where it works in this process, what it trains heeds ``stop``."""
    if stop is None or workers > 1 or hasattr(estimator, "evaluate_many"):
        return estimator
    return lambda job: estimator(Heeding(**vars(job), stop=stop))


def until_stopped(work: Callable[[], Ending], stop: Stop | None) -> Ending:
    """Do it; a trial that was stopped in its midst stops the search."""
    try:
        return work()
    except KeyboardInterrupt:
        if stop is None or not stop():
            raise
        return "stopped"


def concluded(study: Study) -> bool:
    """Whether the outcome is written; for a recipe that is the last thing it does."""
    return bool(read_outcome(study.folder).headline)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch in this process, as in every worker.

    Processes that compete for cores with several threads each are many times slower, and results
    would depend on their number.
    """
    with using_threads(1):
        yield


def plan_of(study: Study) -> Plan:
    """The plan that a study was begun with."""
    return Plan.from_data(study.meta.get("plan"))


def with_baseline(
    study: Study,
    name: str,
    arch: Architecture,
    estimator: Evaluate,
    *,
    rung: int = 0,
    steps: int | None = None,
    stop: Stop | None = None,
    say: Say,
) -> Outcome | None:
    """Evaluate the baseline as a trial of the last rung would be, once; None when stopped."""
    outcome = read_outcome(study.folder)
    if outcome.baseline is not None and outcome.baseline.values:
        return outcome
    say(f"evaluating the baseline, {name}")
    trial = Trial(BASELINE, {}, rung=rung, steps=steps)
    job = Heeding(trial, arch, study.folder / "baseline", None, study.seed, stop=stop)
    try:
        values = dict(estimator(job))
    except KeyboardInterrupt:
        if stop is None or not stop():
            raise
        return None
    except FormwrightError as error:
        raise InputError(f"The baseline {name} cannot be evaluated: {error}") from None
    outcome = Outcome(Baseline(name, notation(arch), arch_id(arch), values))
    write_outcome(study.folder, outcome)
    return outcome


def _against(target: Target, arch: Architecture) -> Target:
    """Times are taken against the baseline, unless the target has a reference of its own."""
    return target if target.reference is not None else target.replace(reference=notation(arch))


def _agree(plan: Plan, space: Space, study: Study) -> None:
    """A folder is continued by the same plan only; budgets and workers may differ."""
    free = {"seconds", "trials", "workers"}
    ours, theirs = (_plain(made.to_data()) for made in (plan, plan_of(study)))
    different = sorted(k for k in ours if k not in free and ours[k] != theirs[k])
    if not different and _plain(space_data(space)) != study.meta["space"]:
        different, ours["space"], theirs["space"] = ["space"], "what is there now", "another one"
    if different:
        name = different[0]
        raise InputError(
            f"{study.folder} holds another search: its {name} is {theirs[name]!r}, not "
            f"{ours[name]!r}. Continue it with `formwright resume {study.folder}`, or choose "
            "another --out."
        )


def _plain(data: dict[str, Any]) -> dict[str, Any]:
    """The same as the record keeps it: lists for tuples, and no name of a home folder."""
    found: dict[str, Any] = json.loads(discreet(json.dumps(data)))
    return found
