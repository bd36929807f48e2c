"""The life of a recipe: begun in a folder, led through its phases, stopped and continued at will.

There is one test of whether a folder holds the same search (``reopened``); what a recipe does while
it works goes through its ``Session``.
"""

import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from formwright.cost import calibrate
from formwright.cost.machine import describe_machine
from formwright.cost.meter import using_threads
from formwright.errors import Stopped
from formwright.recipes.recipe import Recipe
from formwright.recipes.reopen import reopened, target_of
from formwright.recipes.session import (
    Crew,
    OnPhase,
    OnStage,
    Say,
    Session,
    Stop,
    described,
    set_clock,
)
from formwright.study import Ending, Study
from formwright.study.loop import OnEvent
from formwright.study.outcome import Outcome, write_outcome
from formwright.versions import changes


def begin(recipe: Recipe, folder: Path, *, command: str = "", say: Say | None = None) -> Study:
    """Open the study of a recipe, or create it with its clock calibrated.

    The same recipe in the same folder continues; another one is refused.

    Args:
        recipe: What to search, and for what.
        folder: Of the study.
        command: What a user typed.
        say: Told what goes on.
    """
    study, began = reopened(recipe, folder), time.monotonic()
    if study is not None:
        return study
    recipe.check()
    space, objectives = recipe.make_space(), recipe.objectives()  # which may be refused
    target = recipe.where()
    if target is not None and not target.reference_ms:
        (say or (lambda text: None))("calibrating the clock on this machine")
        target = calibrate(recipe.timed(target), seconds=2.0)
    recipe = replace(recipe, target=target)
    recipe.check_calibrated()
    strategy, options = recipe.make_strategy()
    study = Study.create(
        folder,
        space=space,
        objectives=objectives,
        strategy=strategy,
        options=options,
        seed=recipe.seed,
        rules=recipe.rules(),
        target=asdict(target) if target is not None else None,
        recipe=recipe.name,
        task=recipe.task,
        command=command,
        machine=describe_machine(target.runtime if target is not None else "eager"),
        changed=list(recipe.changed),
        hyperparameters=recipe.hyperparameters(),
        free={name: getattr(recipe, name) for name in sorted(recipe.FREE)},
        **recipe.remembered,
    )
    write_outcome(folder, Outcome(described(*recipe.make_baseline())))
    set_clock(folder, time.monotonic() - began)
    return study


def conduct(
    recipe: Recipe,
    study: Study,
    *,
    stop: Stop | None = None,
    on_event: OnEvent | None = None,
    say: Say | None = None,
    on_stage: OnStage | None = None,
    on_phase: OnPhase | None = None,
    crew: Crew | None = None,
) -> Ending:
    """Lead a recipe through its phases. Calling it again goes on, or does nothing at the end."""
    recipe = replace(recipe, target=target_of(study))
    told: dict[str, Any] = {"on_event": on_event, "on_stage": on_stage, "on_phase": on_phase}
    session = Session(recipe, study, stop=stop, say=say, crew=crew, **told)
    if recipe.ENDS and session.concluded:
        return "exhausted"
    if study.state.total:
        for sentence in changes(study.meta):
            session.say(f"note: {sentence}")
    try:
        # Processes that compete for cores with several threads each are many times slower, and
        # results would depend on their number.
        with using_threads(1):
            for phase in session.recipe.phases():
                session.on_phase(getattr(phase, "__name__", "phase").replace("_", " "), None, None)
                phase(session)
    except Stopped:
        return "stopped"
    finally:
        session.close()
    return session.ending
