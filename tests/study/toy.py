"""A small space, a free evaluator and ones that misbehave: what tests of studies search."""

import errno
import math
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, Attention, Decoder, FeedForward, Residual, Stack
from formwright.space import OneOf, SomeOf, Span, TreeSpace
from formwright.study import Job, Rules, Study
from formwright.trial import Objective, Trial

OBJECTIVES = (Objective("loss"), Objective("speed", "max"))


def space(layers: int = 6) -> TreeSpace:
    """Heads and widths of each layer: 4 x 16 to the power of the layers."""
    stack = [
        layer
        for i in range(layers)
        for layer in (
            Residual(Attention(heads=OneOf(f"heads{i}", (1, 2, 4, 8)))),  # type: ignore[arg-type]
            Residual(FeedForward(Span(f"inner{i}", 64, 1024, 64))),  # type: ignore[arg-type]
        )
    ]
    return TreeSpace(Architecture(Stack(tuple(stack)), Decoder(64)))


def tiny() -> TreeSpace:
    """Sixteen members, one decision of which is a subset."""
    some = SomeOf("kept", (Residual(Attention(heads=1)), Residual(FeedForward(64))), 1, 2)
    first = Residual(FeedForward(OneOf("inner", (64, 128, 192, 256))))  # type: ignore[arg-type]
    return TreeSpace(Architecture(Stack((first, some)), Decoder(64)))


def study(folder: Path, **changes: Any) -> Study:
    rules = Rules(**{k: changes.pop(k) for k in ("window", "control", "limits") if k in changes})
    asked = {"space": space(), "objectives": OBJECTIVES, "strategy": "evolution", "seed": 3}
    return Study.create(folder, **(asked | {"rules": rules} | changes))


def values_of(trial: Trial) -> dict[str, float]:
    """Two numbers that follow from the decisions, and pull in opposite directions."""
    numbers = [v for v in trial.decisions.values() if isinstance(v, int | float)]
    total = sum(numbers) + 1
    return {"loss": math.sin(total) + 900 / total, "speed": 1e4 / total + math.cos(total) ** 2}


def free(job: Job) -> Mapping[str, float]:
    return values_of(job.trial)


@dataclass
class Logged:
    """Evaluates slowly and leaves a line for each time it did."""

    log: Path
    pause: float = 0.0

    def __call__(self, job: Job) -> Mapping[str, float]:
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"{job.trial.arch}/{job.trial.rung}\n")
        time.sleep(self.pause)
        return values_of(job.trial)

    def lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").split() if self.log.exists() else []


def troubled(job: Job) -> Mapping[str, float]:
    """Of ten trials one raises, one gives NaN, one infinity, one forgets an objective."""
    found = values_of(job.trial)
    match job.trial.number % 10:
        case 2:
            raise ValueError(f"trial {job.trial.number}\nwas not to its taste")
        case 4:
            return found | {"loss": float("nan")}
        case 6:
            return found | {"speed": float("inf")}
        case 8:
            return {"loss": 0.0}
    return found | {"extra": float("nan")}


def threads(job: Job) -> Mapping[str, float]:
    """How many threads the evaluator may compute with."""
    return values_of(job.trial) | {"threads": float(os.environ["OMP_NUM_THREADS"])}


def parents_seen(job: Job) -> Mapping[str, float]:
    """How many of the parents' folders are those of trials before it."""
    before = {job.folder.with_name(f"{number:06d}") for number in range(job.trial.number)}
    return values_of(job.trial) | {"parents": float(len(before & set(job.parents)))}


@dataclass
class Killing:
    """Some trials end their process each time, others the first few times only.

    Args:
        folder: Where it counts how often each was begun.
        always: Numbers of the trials that end it each time.
        first: Number of a trial to how often it does.
        how: The signal; 0 leaves with code 3.
    """

    folder: Path
    always: tuple[int, ...] = ()
    first: tuple[tuple[int, int], ...] = ()
    how: int = signal.SIGKILL

    def __call__(self, job: Job) -> Mapping[str, float]:
        number = job.trial.number
        with open(self.folder / f"begun-{number}", "a", encoding="utf-8") as file:
            file.write(".")
        if number in self.always or self.begun(number) <= dict(self.first).get(number, 0):
            if self.how == 0:
                os._exit(3)
            os.kill(os.getpid(), self.how)
            time.sleep(60)  # until the signal comes
        return values_of(job.trial)

    def begun(self, number: int) -> int:
        """How often a trial was begun."""
        place = self.folder / f"begun-{number}"
        return len(place.read_text(encoding="utf-8")) if place.exists() else 0


@dataclass
class Filling:
    """A disk that is full when some trials are tried, as long as a file ``full`` is there."""

    folder: Path
    numbers: tuple[int, ...]
    code: int = errno.ENOSPC

    def __call__(self, job: Job) -> Mapping[str, float]:
        if job.trial.number in self.numbers and (self.folder / "full").exists():
            raise OSError(self.code, os.strerror(self.code), str(job.folder / "weights"))
        return values_of(job.trial)


def archive(study: Study) -> list[tuple[Any, ...]]:
    """All of a study's trials that a repetition must give again."""
    return [
        (
            t.number,
            t.decisions,
            t.arch,
            t.state,
            t.values,
            t.reason,
            t.parents,
            t.rung,
            t.steps,
            t.origin,
            t.note,
            t.details,
            t.original,
        )
        for t in study.trials
    ]
