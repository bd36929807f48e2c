"""How a search spends its budget: short trials, longer stages for the best, finals.

Pure arithmetic. Lengths follow from the budget and from what a step costs in seconds of a
processor, so that a busy machine gets fewer trials and not shorter ones. More budget means longer
training: the last stage is a quarter of the finals, each one before it a third of the next
(of the lengths tried on recorded curves, benchmarks/ladder.py, these did best).

| budget  | stages of trials  | finals |                                      |
|---------|-------------------|--------|--------------------------------------|
| 5 min   | 88, 264           |  1,056 | 2 finalists and the best rival       |
| 30 min  | 422, 1,266        |  5,064 | 3 finalists, each the best of 3 rates|
| a night | 2,323, 6,969      | 27,886 | 4 finalists, 2 rivals, 2 seeds each  |

(for two processes and a step of 0.12 s)
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

ETA = 3  # one trial in so many goes on to the next stage, which is so many times as long
COOLED = 0.2  # of a stage: steps with a falling rate before it is judged
_LAST = 4  # the last stage is so many times shorter than the finals
_SHORTEST, _FINEST = 50, 20  # steps of the first stage: at least so many, or this part of finals
_CHEAPER = 0.6  # what a member costs to train, as a share of a rival, as a guess
_AROUND = 1.5  # seconds of a trial that are not training: building, measuring
_SCORING = 12  # and what its scores cost, in steps
_PAIRED = 8.0  # seconds for the last measurement, and for the report
_STARTING = 4.0  # seconds for processes to start, once for the search and once for the finals
PILOT = 0.05  # of the finals: what each rate is tried for where there are several


@dataclass(frozen=True)
class Plan:
    """What a budget is spent on.

    Args:
        seconds: The budget; None where the number of trials is given.
        workers: Processes.
        step_seconds: What one training step of a rival takes of a processor.
        stages: Training steps of the trials, stage by stage.
        trials: How many trials are expected, those of later stages included.
        finalists: Members that are trained to the end.
        rivals: Hand-designed models that are.
        steps: Of training in the finals.
        rates: Factors of the usual rate that each of them may choose among.
        seeds: How often each is trained.
        search: Seconds after which no trial of a stage is begun.
    """

    seconds: float | None
    workers: int
    step_seconds: float
    stages: tuple[int, ...]
    trials: int
    finalists: int
    rivals: int
    steps: int
    rates: tuple[float, ...] = (1.0,)
    seeds: int = 1
    search: float | None = None

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Plan":
        """The inverse of ``to_data``; what else stands beside it is left out."""
        known = {field.name: data[field.name] for field in fields(cls)}
        lists = {name: tuple(known[name]) for name in ("stages", "rates")}
        return cls(**{**known, **lists})

    @property
    def lines(self) -> list[str]:
        """The plan in words."""
        short, *others = self.stages
        on = f", the best third on to {_listed(others)}" if others else ""
        choice = f", the best of {len(self.rates)} rates" if len(self.rates) > 1 else ""
        again = f", {self.seeds} seeds" if self.seeds > 1 else ""
        first = f"plan: about {self.trials} trials of {short:,} steps{on}"
        last = (
            f"then {self.finalists} finalists and the best {_rivals(self.rivals)}, trained alike "
            f"from new weights for about {self.steps:,} steps{choice}{again}"
        )
        if self.seconds is None or self.search is None:
            return [first, last]
        left = self.seconds - self.search - _PAIRED
        if left <= 0:
            over = f"{_minutes(self.seconds)} are over before trials and finals can fit in"
            return [first, last, f"{over}; this is the shortest search there is"]
        timed = (
            f"of {_minutes(self.seconds)}: {_minutes(self.search)} for trials, "
            f"{_minutes(left)} for finals, {_PAIRED:.0f} s to measure the best against its rival"
        )
        return [first, last, timed]


def planned(
    seconds: float, workers: int, step_seconds: float, *, rivals: int = 1, spent: float = 0.0
) -> Plan:
    """The plan for a budget.

    Args:
        seconds: The budget in all.
        workers: Processes.
        step_seconds: What one training step of a rival takes of a processor.
        rivals: How many hand-designed models there are.
        spent: Seconds that are gone.
    """
    finalists, held, rates, seeds = _entrants(seconds)
    held = min(held, rivals)
    usable = max(1.0, seconds - spent - _PAIRED - 2 * _STARTING)
    share = 0.5 if seconds < 1200 else 0.55
    once = step_seconds * (finalists * _CHEAPER + held)
    pilots = PILOT * len(rates) if len(rates) > 1 else 0.0
    steps = max(2 * _SHORTEST, int(share * usable * workers / (once * (seeds + pilots))))
    search = spent + _STARTING + (1 - share) * usable
    stages = stages_for(steps)
    new = (1 - share) * usable * workers - rivals * stages[-1] * (1 + COOLED) * step_seconds
    return Plan(
        seconds=seconds,
        workers=workers,
        step_seconds=step_seconds,
        stages=stages,
        trials=max(2, int(new / _dear(stages, step_seconds))),
        finalists=finalists,
        rivals=held,
        steps=steps,
        rates=rates,
        seeds=seeds,
        search=search,
    )


def counted(trials: int, stages: Sequence[int], workers: int, *, rivals: int = 1) -> Plan:
    """The plan for a number of trials, whatever time they take."""
    return Plan(
        seconds=None,
        workers=workers,
        step_seconds=0.0,
        stages=tuple(stages),
        trials=trials,
        finalists=max(1, min(3, trials // 4)),
        rivals=min(1, rivals),
        steps=stages[-1] * ETA,
    )


def reserve(workers: int) -> float:
    """Seconds for what is neither trial nor final: processes that start, the last measurement."""
    return _PAIRED + (_STARTING if workers > 1 else 0.0)


def stages_for(steps: int) -> tuple[int, ...]:
    """Stages of trials below finals of so many steps."""
    first, count = max(_SHORTEST, steps // _LAST), 1
    while first // ETA >= max(_SHORTEST, steps // _FINEST):
        first, count = first // ETA, count + 1
    return tuple(first * ETA**rung for rung in range(count))


def longest(seconds: float, workers: int, paces: Sequence[float]) -> int:
    """Steps that all models can be trained for within a time, side by side.

    Args:
        seconds: For all of them.
        workers: Processes, each of which takes the dearest that is left.
        paces: Seconds of one step of each model.
    """
    return max(1, int(seconds / loaded(workers, paces)))


def loaded(workers: int, paces: Sequence[float]) -> float:
    """Seconds until the last process has taken one step of every model that it has.

    Args:
        workers: Processes, each of which takes the dearest that is left.
        paces: Seconds of one step of each model.
    """
    busy = [0.0] * max(1, workers)
    for pace in sorted(paces, reverse=True):
        least = min(range(len(busy)), key=busy.__getitem__)
        busy[least] += pace
    return max(busy)


def _entrants(seconds: float) -> tuple[int, int, tuple[float, ...], int]:
    """Finalists, rivals, rates and seeds that a budget is enough for."""
    if seconds < 600:
        return 2, 1, (1.0,), 1
    if seconds < 1200:
        return 3, 1, (1.0,), 1
    if seconds < 7200:
        return 3, 1, (0.5, 1.0, 2.0), 1
    return 4, 2, (0.5, 1.0, 2.0), 2


def _dear(stages: Sequence[int], step_seconds: float) -> float:
    """What a trial costs in the mean, its share of promotions included."""
    total, before = 0.0, 0
    for rung, steps in enumerate(stages):
        taken = (steps - before + COOLED * steps + _SCORING) * step_seconds * _CHEAPER
        total += (taken + (_AROUND if rung == 0 else 0.0)) / ETA**rung
        before = steps
    return total


def _rivals(count: int) -> str:
    return "rival" if count == 1 else f"{count} rivals"


def _listed(steps: Sequence[int]) -> str:
    return (
        " and ".join(f"{each:,}" for each in steps)
        if len(steps) < 3
        else (", ".join(f"{each:,}" for each in steps[:-1]) + f" and {steps[-1]:,}")
    )


def _minutes(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
