"""How students are found, by name: what ``formwright compress --method NAME`` can be told.

A method is a function that is given what is asked and finds one student for each limit. ``blocks``
is the method of this room and needs no entry here, since it also makes the simple students that all
others are held against. A recipe that finds students in another way announces itself:

    @method("mine")
    def mine(asked: Asked) -> list[Found]: ...

or in a package under the entry point group ``formwright.methods``. ``auto`` tries those that have
said how long they would take (``ESTIMATES``) where the budget leaves so much.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.arch import Architecture
from formwright.cost import Target
from formwright.distil.limits import Limit
from formwright.distil.teacher import Teacher
from formwright.errors import InputError
from formwright.registry import Registry

BLOCKS, AUTO = "blocks", "auto"


@dataclass(frozen=True)
class Asked:
    """What a method is given.

    Args:
        teacher: Whose head learnt the task.
        limits: One student is wanted for each.
        folder: Where it may keep what it trains; what is there is its own from an earlier session.
        target: Where latency counts.
        measure: Milliseconds of an architecture there.
        seed: Of all chance.
        seconds: Of the whole compression; None where only its own numbers decide.
        token_seconds: What one token of a training step of the teacher takes, as measured.
        kept: Keeps a JSON value by name, computed once.
        stop: Asked often; True ends the work by ``Stopped``.
        say: Told what goes on.
    """

    teacher: Teacher
    limits: Sequence[Limit]
    folder: Path
    target: Target
    measure: Callable[[Architecture], float]
    seed: int
    seconds: float | None
    kept: Callable[[str, Callable[[], Any]], Any]
    stop: Callable[[], bool]
    say: Callable[[str], None]
    token_seconds: float = 0.0


@dataclass(frozen=True)
class Found:
    """A student that keeps a limit.

    Args:
        limit: Which.
        model: Folder of its model, with the weights that whole distillation begins at.
        note: What it is, for people.
    """

    limit: Limit
    model: Path
    note: str = ""


Method = Callable[[Asked], list[Found]]
METHODS: Registry[Method] = Registry("method", "formwright.methods")
# About how many seconds a method would take; it refuses, in a sentence, what it cannot do at all.
ESTIMATES: dict[str, Callable[[Asked], float]] = {}
# Refuses, in a sentence, an architecture that a method cannot make students of.
CHECKS: dict[str, Callable[[Architecture], object]] = {}


def method(name: str) -> Callable[[Method], Method]:
    """Decorate a function that finds students."""
    return METHODS(name)


def known_method(name: str) -> Method | None:
    """A method by name; None for ``blocks``, which the recipe itself leads."""
    if name in (BLOCKS, AUTO):
        return None
    if name in METHODS:
        return METHODS.get(name)
    raise InputError(
        f"--method {name} is not known; use auto, blocks{''.join(f', {n}' for n in METHODS)}."
    )
