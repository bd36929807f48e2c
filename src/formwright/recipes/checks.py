"""What cannot work is refused before anything is calibrated or trained."""

from random import Random
from typing import TYPE_CHECKING

from formwright.errors import InputError, UnknownName
from formwright.estimate.own import BUILT_IN, objectives
from formwright.estimate.training import known_task
from formwright.model import build
from formwright.strategy.blackbox import make_strategy

if TYPE_CHECKING:
    from formwright.recipes.usual import UsualSearch

_TOKENS = 256  # of the one batch on which a task shows what it measures
MEASURED = ("latency_ratio", "step_seconds", "tokens_per_second", "steps")


def check_usual(search: "UsualSearch") -> None:
    """Refuse what a usual search cannot do: each part is made once, which takes no time."""
    space = search.make_space()
    space.sample(Random(search.seed))  # an empty space
    search.make_baseline()
    name, options = search.make_strategy()
    make_strategy(name, space, search.objectives(), search.seed, **options)
    for objective in search.objectives():
        check_objective(search, objective.name)


def check_objective(search: "UsualSearch", name: str) -> None:
    """Refuse an objective that nothing measures."""
    task = known_task(search.task)
    known = {*BUILT_IN, *objectives, *MEASURED, task.metric}
    if not search.trains:
        known = {*BUILT_IN, *objectives, search.estimator} - {"loss"}
    if name in known:
        return
    if search.trains:  # a task may measure more than it says: it is asked, on one batch
        model = build(search.make_baseline()[1])
        known |= {*task.score(model, batch_tokens=max(_TOKENS, task.frame.length), limit=1)}
    if name not in known:
        raise UnknownName("objective", name, known, "Run `formwright list objectives`.")


def check_width(width: int) -> None:
    """Refuse a width that no model has."""
    if not 1 <= width <= 1_000_000:
        raise InputError(f"width={width} cannot be used; give at least 1, such as 128.")
