"""Students of ``formwright compress`` that another recipe finds: AutoDistil's, NAS-BERT's, FFT's.

Each limit is a study of its own inside the folder of the compression, so it is stopped and
continued as any other. What the recipe hands over then learns from the teacher as a whole, beside
the blocks and the simple students, and is judged as they are.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from formwright.distil.limits import LATENCY, SPEEDUP, Limit
from formwright.distil.methods import CHECKS, ESTIMATES, METHODS, Asked, Found
from formwright.errors import InputError, Stopped
from formwright.recipes.fft import Fft, known_cut, small
from formwright.recipes.life import begin, conduct
from formwright.recipes.priced import Finding
from formwright.recipes.recipe import Phase, Recipe, recipe
from formwright.recipes.session import model_of
from formwright.recipes.taught import LIMITS, Taught
from formwright.space.students import unit_of
from formwright.strategy.gradient import SearchConfig
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.train import TrainConfig

TAUGHT = ("autodistil", "nasbert")
FFT = "fft"
NAMES = (*TAUGHT, FFT)
_STILL = 1e-9  # a rate at which a teacher that knows its task stays as it is
_SHARE, _FEWEST, _MOST = 0.25, 100, 400  # of the budget, and steps of one search of ``fft``
_SEARCHES = 5  # prices that a limit usually takes
_UPDATES = 40  # of the gates in a search
_SLOWER = 1.3  # a step of a supernet over one of the teacher


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
        found = _connected(study, made, limit) if isinstance(made, Fft) else _tuned(study, limit)
        if found is None:
            raise InputError(
                f"{name} found no student that is {limit.words}; use --method blocks, or a looser "
                "limit."
            )
        return found
    finally:
        study.close()


def _tuned(study: Study, limit: Limit) -> Found | None:
    """What a recipe with a teacher chose, tuned on the task."""
    chosen = read_outcome(study.folder).chosen
    model = None if chosen is None else model_of(study, chosen)
    if chosen is None or model is None:
        return None
    return Found(limit, model, study.trials[chosen].note)


def _connected(study: Study, made: Fft, limit: Limit) -> Found | None:
    """The components that are left at the lowest price that keeps the limits, if any does."""
    place = study.folder / "phases"
    (kind,) = (method.kind for method in made.methods)
    found = Finding.known(study.folder / _read(place / f"found-{kind}.json")["folder"])
    if found is None:
        return None
    costs = _read(place / f"costs-{kind}-{found.price:g}.json")
    if any(costs[name] > most for name, most in made.rules().limits.items()):
        return None
    model = study.folder / found.folder / "settled" / "model"
    return Found(limit, model, f"components at price {found.price:g}")


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


# --- the recipes --------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Components(Fft):
    """Finding Fast Transformers as far as what it finds; a compression does the rest."""

    def phases(self) -> Sequence[Phase]:
        return (self.measure_baseline, self.profile, self.find)


def _recipe(name: str, asked: Asked, limit: Limit, preset: str) -> Recipe:
    """The recipe for a teacher that knows its task, under a limit."""
    teacher = asked.teacher
    task = teacher.task.name
    made = recipe(
        "fft-do" if name == FFT else name, preset, task=task, start=str(teacher.folder),
        seed=asked.seed,
    )  # fmt: skip
    if isinstance(made, Taught):
        still = made.teaching.replace(steps=1, lr=_STILL, warmup=0)
        made = replace(made, teaching=still)
    else:
        assert isinstance(made, Fft)
        made = _components(made, asked)
    return made.on_target(asked.target).bounded(_bounds(asked, limit))


def _components(made: Fft, asked: Asked) -> Fft:
    """Its numbers for a teacher that knows its task, in a share of the budget."""
    own = {field.name: getattr(made, field.name) for field in fields(made)}
    steps = made.search.steps or _MOST
    if asked.seconds is not None and asked.token_seconds:
        each = _SEARCHES * len(asked.limits) * _step(asked, made.search)
        steps = min(steps, max(_FEWEST, int(_SHARE * asked.seconds / each)))
    own |= {
        "methods": tuple(replace(m, choices=_in_time(m.choices, steps)) for m in made.methods),
        "training": made.training.replace(steps=1, lr=_STILL, warmup=0),
        "search": made.search.replace(steps=steps),
        "settling": made.settling.replace(steps=min(made.settling.steps or 1, max(1, steps // 4))),
        "teach": 0.5,
        "random": 0,
    }
    return Components(**own)


def _in_time(choices: SearchConfig, steps: int) -> SearchConfig:
    """Gates that are updated so often and so fast that half of the search can close one."""
    pause = min(choices.pause, max(0, steps // _UPDATES - 1))
    return replace(choices, pause=pause, lr=max(choices.lr, 2 * (1 + pause) / steps))


def _bounds(asked: Asked, limit: Limit) -> Mapping[str, float]:
    """The limit by the names that recipes have for it."""
    kinds = {kind for kind, _ in limit.asked}
    own = {LATENCY: asked.measure(asked.teacher.model.arch)} if SPEEDUP in kinds else {}
    most = limit.most(own)
    return {name: most[cost] for name, cost in LIMITS.items() if cost in most}


# --- how long they would take -------------------------------------------------------------


def _step(asked: Asked, config: TrainConfig) -> float:
    """Seconds of one training step of a supernet of the teacher."""
    return _SLOWER * asked.token_seconds * config.batch_tokens * config.accumulate


def seconds_of(name: str, asked: Asked, preset: str = "small") -> float:
    """About how long a recipe would take for all limits, by what a step of the teacher took.

    Args:
        name: Of the recipe.
        asked: What the compression wants.
        preset: Whose numbers hold.
    """
    made = _recipe(name, replace(asked, measure=lambda arch: 1.0), asked.limits[0], preset)
    made.check()
    assert isinstance(made, Taught | Fft)
    each = _step(asked, made.search)
    steps = made.search.steps or 1
    if isinstance(made, Fft):
        once = _SEARCHES * (steps + (made.settling.steps or 0)) * each
    else:
        once = made.passes * each + (made.expected or 1) * (made.training.steps or 1) * (
            _step(asked, made.training)
        )
    return once * len(asked.limits)


def _announce() -> None:
    for name in NAMES:
        METHODS.add(name, partial(students_of, name))
        ESTIMATES[name] = partial(seconds_of, name)
        CHECKS[name] = unit_of
    CHECKS[FFT] = lambda arch: known_cut(arch, small().cut, "The model's folder")


_announce()
