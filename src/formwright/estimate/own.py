"""Objectives of one's own: a function of an architecture, known by name.

    from formwright import objective

    @objective("layers")
    def layers(arch):
        "How many layers it has."
        return sum(len(stack.layers) for _, stack, _ in arch.stacks())

``formwright search --minimise layers`` and ``Objective("layers", "min")`` then count it beside what
is built in. Installed packages announce theirs under ``formwright.objectives``.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from formwright.errors import InputError
from formwright.estimate.base import Estimator, Work
from formwright.registry import Registry

Measure = Callable[[Any], float]

# What every search can count, and what it means.
BUILT_IN = {
    "loss": "of the task, on its validation rows",
    "params": "parameters",
    "decoder_params": "parameters that are not in the embedding",
    "flops": "floating-point operations of one call; a multiply-add is two",
    "latency": "milliseconds of one call on the target",
    "memory": "bytes at the peak of one call on the target",
}


class _Objectives(Registry[Measure]):
    def add(self, name: str, thing: Measure) -> None:
        if name in BUILT_IN:
            raise InputError(f"The objective {name!r} is built in; choose another name.")
        if not callable(thing):
            raise InputError(f"{thing!r} is no function of an architecture.")
        super().add(name, thing)


objectives = _Objectives("objective", "formwright.objectives")


def objective(name: str) -> Callable[[Measure], Measure]:
    """Decorate a function of an architecture that gives a number, to be counted in searches.

    >>> @objective("depth")
    ... def depth(arch):
    ...     "How many layers it has."
    ...     return sum(len(stack.layers) for _, stack, _ in arch.stacks())
    >>> about("depth")
    'How many layers it has.'
    >>> objectives.forget("depth")
    """
    return objectives(name)


def about(name: str) -> str:
    """What an objective is, in a line."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    return (inspect.getdoc(objectives.get(name)) or "").partition("\n")[0]


@dataclass(frozen=True)
class Own(Estimator):
    """One such function; it is handed to worker processes as functions are, by where it stands.

    Args:
        name: Of the value.
        measure: What gives it.
    """

    name: str
    measure: Measure

    def __call__(self, work: Work) -> Mapping[str, float]:
        return {self.name: float(self.measure(work.arch))}
