"""Finals: members that a search picked, trained longer than any trial was."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from formwright.estimate import Diverged, Estimator
from formwright.recipes.life import Session
from formwright.trial import Trial


def train_finals(
    session: Session, trials: Sequence[Trial], estimator: Estimator
) -> dict[str, list[dict[str, Any]]]:
    """Evaluate each once more, in its own folder.

    A member whose training diverges is told beside the others, with the reason.

    Returns:
        ``models``: trial and values of each, those of the trial included; ``failed``: trial and
        reason.
    """
    models: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for trial in trials:
        try:
            values = session.evaluate(
                estimator,
                trial=replace(trial, rung=0),
                arch=session.study.space.resolve(trial.decisions),
                folder=session.study.trial_folder(trial.number),
                previous=None,
                seed=session.recipe.seed,
            )
        except Diverged as error:
            failed.append({"trial": trial.number, "reason": str(error)})
            session.say(f"trial {trial.number} is not ranked: {error}")
            continue
        models.append({"trial": trial.number, "loss": values["loss"], **dict(trial.values)})
    return {"models": models, "failed": failed}
