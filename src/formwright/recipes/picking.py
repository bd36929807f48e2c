"""Students by their loss: scored inside a supernet, the best that limits allow, their weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from formwright.errors import InputError
from formwright.estimate.base import Work
from formwright.estimate.inherited import Source, dropouts, fitted, searched_supernet
from formwright.model import Model, load_model
from formwright.recipes.session import SUPERNET
from formwright.recipes.taught import teacher_folder
from formwright.space import Decisions
from formwright.space.union import PART
from formwright.supernet import Supernet
from formwright.tasks import Task
from formwright.train import TrainConfig

FROM_TEACHER = "teacher"  # in the details of a trial: it is cut out of the teacher itself
Price = Callable[["Row"], float]  # milliseconds of a student


@dataclass(frozen=True)
class Row:
    """One student.

    Args:
        part: The sub-space, or the bin, that it lies in.
        decisions: Of the whole space.
        loss: Inside the supernet, on batches that nobody learnt from.
        costs: What is known of it: ``params``, ``flops``, perhaps ``latency``.
    """

    part: str
    decisions: Decisions
    loss: float
    costs: Mapping[str, float]

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "decisions": dict(self.decisions), "costs": dict(self.costs)}


@dataclass(frozen=True)
class Picked:
    """Students that were taken, and the limits that they keep."""

    found: tuple[Row, ...]
    limits: Mapping[str, float]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Picked":
        """As ``Session.kept`` gives it back."""
        return cls(tuple(Row(**row) for row in data["found"]), data["limits"])


@torch.no_grad()
def scored(
    supernet: Supernet,
    loss: Callable[..., Any],
    batches: Sequence[Any],
    members: Sequence[Decisions],
    check: Callable[[], None],
) -> list[float]:
    """The mean loss of each member on the same batches, which a teacher reads once each."""
    found = [0.0] * len(members)
    was_training = supernet.training
    supernet.eval()
    for batch in batches:
        for number, decisions in enumerate(members):
            check()
            with supernet.gated(decisions):
                found[number] += float(loss(supernet, batch, None)) / len(batches)
    supernet.train(was_training)
    return found


def best_first(
    rows: Sequence[Row],
    limits: Mapping[str, float],
    wanted: int,
    price: Price,
    *,
    strict: bool = True,
) -> list[Row]:
    """The students of least loss that keep the limits, the best first.

    Latency is measured, from the best student down, and only as far as needed: who has no smaller
    size than a student that is too slow is too slow as well.

    Args:
        rows: All students.
        limits: The most that each cost may be.
        wanted: How many.
        price: Measures a student, in milliseconds.
        strict: Whether none at all is an error.
    """
    counted = {name: most for name, most in limits.items() if name != "latency"}
    allowed = [r for r in rows if all(r.costs[name] <= most for name, most in counted.items())]
    found: list[Row] = []
    slow: list[Row] = []
    least = float("inf")
    for row in sorted(allowed, key=lambda row: row.loss):
        if len(found) == wanted:
            break
        if "latency" not in limits:
            found.append(row)
            continue
        if any(_no_smaller(row, other) for other in slow):
            continue
        took = price(row)
        least = min(least, took)
        if took <= limits["latency"]:
            found.append(Row(row.part, row.decisions, row.loss, {**row.costs, "latency": took}))
        else:
            slow.append(row)
    if strict and not found:
        raise _unmet(rows, limits, least)
    return found


def _no_smaller(row: Row, other: Row) -> bool:
    """Whether a student is at least as large as another in every size."""
    sizes = [(row.decisions.get(name), value) for name, value in other.decisions.items()]
    return row.part == other.part and all(
        isinstance(ours, int | float) and isinstance(theirs, int | float) and ours >= theirs
        for ours, theirs in sizes
        if not isinstance(theirs, str)
    )


def _unmet(rows: Sequence[Row], limits: Mapping[str, float], fastest: float) -> InputError:
    """What to say where nothing keeps the limits: the smallest possible, by name."""
    least = {
        name: fastest if name == "latency" else min(row.costs[name] for row in rows)
        for name in limits
    }
    asked = ", ".join(f"{name} {most:.4g}" for name, most in limits.items())
    said = ", ".join(f"{name} {value:.4g}" for name, value in least.items())
    return InputError(
        f"No student keeps the limits ({asked}); the least that any has is {said}. Raise a limit, "
        "or begin at a smaller teacher."
    )


@dataclass(frozen=True)
class FromSuper(Source):
    """A student with the weights that it has in the supernet of its sub-space.

    A control that says so is cut out of the teacher itself.

    Args:
        folder: Of the study.
        shots: As of ``AutoDistil``.
    """

    folder: str
    shots: str

    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        own = {name: value for name, value in work.trial.decisions.items() if name != PART}
        if work.trial.details.get(FROM_TEACHER):
            donor = load_model(teacher_folder(Path(self.folder)))
            depth, whole = int(own["depth"]), len(donor.arch.layers.layers) // 2
            layers = {2 * i + j: 2 * (i * whole // depth) + j for i in range(depth) for j in (0, 1)}
            return fitted(work, task, config, donor, layers)
        name = "all" if self.shots == "one" else str(work.trial.decisions[PART])
        found = searched_supernet(Path(self.folder) / SUPERNET / name, **dropouts(config))
        return found.extract(own, seed=work.seed)
