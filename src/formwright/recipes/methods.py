"""Students of ``formwright compress`` that another recipe finds: AutoDistil's and NAS-BERT's.

Each limit is a study of its own inside the folder of the compression, so it is stopped and
continued as any other. What the recipe hands over then learns from the teacher as a whole, beside
the blocks and the simple students, and is judged as they are.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from formwright.distil.limits import LATENCY, SPEEDUP, Limit
from formwright.distil.methods import METHODS, Asked, Found
from formwright.errors import InputError, Stopped
from formwright.recipes.life import begin, conduct, model_of
from formwright.recipes.recipe import recipe
from formwright.recipes.taught import LIMITS, Taught
from formwright.study.outcome import read_outcome

NAMES = ("autodistil", "nasbert")
_STILL = 1e-9  # a rate at which a teacher that knows its task stays as it is


def students_of(name: str, asked: Asked, preset: str = "small") -> list[Found]:
    """One student for each limit, by a recipe with a teacher.

    Args:
        name: Of the recipe.
        asked: What the compression wants.
        preset: Whose numbers hold.
    """
    return [_student(name, asked, limit, preset) for limit in asked.limits]


def _student(name: str, asked: Asked, limit: Limit, preset: str) -> Found:
    made = _recipe(name, asked, limit, preset)
    folder = asked.folder / limit.text
    study = begin(made, folder, say=asked.say)
    try:
        if conduct(made, study, stop=asked.stop, say=asked.say) == "stopped":
            raise Stopped
        chosen = read_outcome(folder).chosen
        model = None if chosen is None else model_of(study, chosen)
        if chosen is None or model is None:
            raise InputError(
                f"{name} found no student that is {limit.words}; use --method blocks, or a looser "
                "limit."
            )
        return Found(limit, model, study.trials[chosen].note)
    finally:
        study.close()


def _recipe(name: str, asked: Asked, limit: Limit, preset: str) -> Taught:
    """The recipe for a teacher that knows its task, under a limit."""
    teacher = asked.teacher
    task = teacher.task.name
    made = recipe(name, preset, task=task, start=str(teacher.folder), seed=asked.seed)
    assert isinstance(made, Taught)
    still = made.teaching.replace(steps=1, lr=_STILL, warmup=0)
    made = replace(made, teaching=still).on_target(asked.target)
    return made.bounded(_bounds(asked, limit))


def _bounds(asked: Asked, limit: Limit) -> Mapping[str, float]:
    """The limit by the names that recipes have for it."""
    kinds = {kind for kind, _ in limit.asked}
    own = {LATENCY: asked.measure(asked.teacher.model.arch)} if SPEEDUP in kinds else {}
    most = limit.most(own)
    return {name: most[cost] for name, cost in LIMITS.items() if cost in most}


def _announce() -> None:
    for name in NAMES:
        METHODS.add(name, partial(students_of, name))


_announce()
