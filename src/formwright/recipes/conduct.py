"""Conducting a search: the baseline first, then the loop, then what was found, in words."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from formwright.arch import Architecture, arch_id, notation, parse
from formwright.cost import Target, calibrate, compare
from formwright.cost.meter import using_threads
from formwright.errors import FormwrightError, InputError
from formwright.execute import search as run_study
from formwright.recipes.plan import Plan
from formwright.study import Ending, Evaluate, Job, Rules, Study
from formwright.study.loop import OnEvent
from formwright.study.outcome import Baseline, Outcome, read_outcome, write_outcome
from formwright.trial import Objective, Trial

Say = Callable[[str], None]
Stop = Callable[[], bool]
BASELINE = -1  # the number of its trial


@dataclass(frozen=True)
class Heeding(Job):
    """A job in this process, which can be asked to stop.

    Args:
        stop: Asked several times a second.
    """

    stop: Stop | None = None


def begin(plan: Plan, folder: Path, *, command: str = "", say: Say | None = None) -> Study:
    """Open the study of a plan, or create it: baseline evaluated, target calibrated.

    The same plan in the same folder continues; another one is refused.
    """
    say = say or (lambda text: None)
    if (folder / "study.db").exists():
        study = Study.open(folder)
        _agree(plan, study)
        return study
    space = plan.make_space()
    space.sample(Random(plan.seed))  # an empty space is told before anything is trained
    name, arch = plan.make_baseline()
    target = None
    if plan.measures:
        say("calibrating the clock on this machine")
        asked = plan.make_target()
        target = asked if asked.reference_ms else calibrate(_against(asked, arch), seconds=2.0)
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
        outcome = with_baseline(study, name, arch, estimator, rung=plan.top, stop=stop, say=say)
        if outcome is None:
            return "stopped", read_outcome(study.folder)
        before = study.state.total
        ending = until_stopped(
            lambda: run_study(
                study,
                stoppable(estimator, stop, workers),
                workers=workers,
                seconds=seconds,
                trials=trials,
                stop=stop,
                on_event=on_event,
            ),
            stop,
        )
        known = outcome.headline and study.state.total == before
        if ending != "stopped" and not known:
            if plan.measures:
                say("measuring the best against the baseline once more")
            outcome = conclude(study, outcome)
            write_outcome(study.folder, outcome)
    return ending, outcome


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


def reopened(recipe: str, seed: int, folder: Path, **others: str | None) -> Study | None:
    """The study that a recipe has in a folder; None where there is none, refused if another's.

    Args:
        recipe: Its name.
        seed: Its seed.
        folder: Where to look.
        others: What else must be as it was: ``task``.
    """
    if not (folder / "study.db").exists():
        return None
    study = Study.open(folder)
    asked = {"recipe": recipe, "seed": str(seed), **others}
    known = {**study.meta, "seed": str(study.seed)}
    for name, value in asked.items():
        before = known.get(name)
        if (before or "") != (value or ""):
            raise InputError(
                f"{folder} holds another search: its {name} is {before or 'not given'}, not "
                f"{value or 'left out'}. Continue it with `formwright resume {folder}`, or choose "
                "another --out."
            )
    return study


def plan_of(study: Study) -> Plan:
    """The plan that a study was begun with."""
    return Plan.from_data(study.meta.get("plan"))


def target_of(study: Study) -> Target | None:
    """Where the study measures latency; None where it does not."""
    data = study.meta.get("target")
    return Target(**data) if data else None


def conclude(study: Study, outcome: Outcome) -> Outcome:
    """Find the member of the front that beats the baseline by most, and say by how much."""
    baseline = outcome.baseline
    quality, cost = headline_objectives(study)
    chosen = champion(study.front, baseline, quality, cost) if baseline is not None else None
    if baseline is None or cost is None or chosen is None:
        return replace(outcome, headline=_no_champion(study, baseline, quality))
    times = baseline.values[cost.name] / chosen.values[cost.name]
    facts = {"times": times}
    words = f"cheaper, {1 / times:.2f} times the {cost.name} of"
    if cost.name == "latency":
        facts, words = paired(study, chosen, baseline)
    ours, theirs = chosen.values[quality.name], baseline.values[quality.name]
    steps = chosen.values.get("steps")
    after = f" after {steps:.0f} training steps each" if steps else ""
    headline = (
        f"Trial {chosen.number} is {words} {baseline.name}, at {quality.name} {ours:.4g} "
        f"against {theirs:.4g}{after}."
    )
    return replace(outcome, headline=headline, chosen=chosen.number, facts=facts)


def headline_objectives(study: Study) -> tuple[Objective, Objective | None]:
    """The objective that stands for quality, and the one that stands for cost."""
    first, *others = study.objectives
    return first, others[0] if others else None


def champion(
    front: list[Trial], baseline: Baseline, quality: Objective, cost: Objective | None
) -> Trial | None:
    """The cheapest trial that is at least as good as the baseline, if it is cheaper at all."""
    if cost is None or not {quality.name, cost.name} <= set(baseline.values):
        return None
    bar, price = (o.sign * baseline.values[o.name] for o in (quality, cost))
    good = [
        trial
        for trial in front
        if quality.sign * trial.values[quality.name] <= bar
        and cost.sign * trial.values[cost.name] < price
    ]
    return min(good, key=lambda t: cost.sign * t.values[cost.name], default=None)


def paired(study: Study, chosen: Trial, baseline: Baseline) -> tuple[dict[str, float], str]:
    """Measure the two against each other once more, longer than in the search."""
    target = target_of(study)
    ours: Architecture = study.space.resolve(chosen.decisions)
    found = compare(ours, parse(baseline.notation), target, seconds=6.0, precision=0.01)
    facts = {
        "speedup": 1 / found.ratio,
        "speedup_low": 1 / found.high,
        "speedup_high": 1 / found.low,
    }
    faster = facts["speedup"] >= 1
    words = (
        f"{facts['speedup']:.2f} times {'faster' if faster else 'as fast'} (95 %: "
        f"{facts['speedup_low']:.2f} to {facts['speedup_high']:.2f}) {'than' if faster else 'as'}"
    )
    return facts, words


def _no_champion(study: Study, baseline: Baseline | None, quality: Objective) -> str:
    front = study.front
    if not front:
        return _no_front(study)
    best = min(front, key=lambda t: quality.sign * t.values[quality.name])
    value = best.values[quality.name]
    if baseline is None or quality.name not in baseline.values:
        return f"The best {quality.name} found is {value:.4g}, by trial {best.number}."
    theirs = baseline.values[quality.name]
    if quality.sign * value <= quality.sign * theirs:
        return (
            f"Trial {best.number} has {quality.name} {value:.4g} against {theirs:.4g} of "
            f"{baseline.name}, at a higher cost; nothing is as good and cheaper yet."
        )
    return (
        f"Nothing reached the {quality.name} of {baseline.name} ({theirs:.4g}) yet; the best is "
        f"{value:.4g}, by trial {best.number}."
    )


def _no_front(study: Study) -> str:
    done = [trial for trial in study.trials if trial.done]
    if not done:
        return "No trial has succeeded; see the reasons in the report."
    for name, most in study.rules.limits.items():
        least = min(trial.values[name] for trial in done if name in trial.values)
        if least > most:
            return (
                f"No trial keeps {name} at most {most:g}; the least found is {least:.4g}. Raise "
                "the limit, or search a space of smaller models."
            )
    return "No trial has reached the last stage yet; give the search a larger budget."


def with_baseline(
    study: Study,
    name: str,
    arch: Architecture,
    estimator: Evaluate,
    *,
    rung: int = 0,
    stop: Stop | None = None,
    say: Say,
) -> Outcome | None:
    """Evaluate the baseline as a trial of the last rung would be, once; None when stopped."""
    outcome = read_outcome(study.folder)
    if outcome.baseline is not None and outcome.baseline.values:
        return outcome
    say(f"evaluating the baseline, {name}")
    trial = Trial(BASELINE, {}, rung=rung)
    job = Heeding(trial, arch, study.folder / "baseline", None, study.seed, stop)
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


def _agree(plan: Plan, study: Study) -> None:
    """A folder is continued by the same plan only; budgets and workers may differ."""
    free = {"seconds", "trials", "workers"}
    ours, theirs = plan.to_data(), plan_of(study).to_data()
    different = sorted(k for k in ours if k not in free and _plain(ours[k]) != _plain(theirs[k]))
    if different:
        name = different[0]
        raise InputError(
            f"{study.folder} holds another search: its {name} is {theirs[name]!r}, not "
            f"{ours[name]!r}. Continue it with `formwright resume {study.folder}`, or choose "
            "another --out."
        )


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
