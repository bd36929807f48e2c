"""Rivals of the ladder that the package does not have: hurdles, and Optuna with its pruner."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
from curve_tables import CurveTable

from formwright.strategy.blackbox.base import Strategy
from formwright.trial import Objective, Proposal, Trial


@dataclass(kw_only=True, eq=False)
class Hurdles(Strategy):
    """Progressive dynamic hurdles: evolution whose children train on if they beat the mean.

    Paper: So et al. 2019, https://arxiv.org/abs/1901.11117. After every ``period`` children another
    hurdle is put up: the mean of those members that had the longest training so far.
    With two objectives a child goes on if it is better than the mean in one of them and no worse
    than the worst in the other, and parents are compared by front and room.
    """

    NAME: ClassVar = "hurdles"

    hurdles: int = 2
    period: int = 8
    population: int = 8
    tournament: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.heights: list[tuple[float, ...]] = []
        self.gone_on: set[int] = set()
        self.begun = 0

    def tell(self, trial: Trial) -> None:
        super().tell(trial)
        if trial.continues is not None:
            self.gone_on.add(trial.continues)
        self.begun += trial.rung == 0
        top = len(self.heights)
        longest = [t.costs(self.objectives) for t in self.trials if t.rung == top]
        if top < self.hurdles and self.begun >= self.period * (top + 1) and len(longest) > 1:
            self.heights.append(tuple(fmean(column) for column in zip(*longest, strict=True)))

    def ask(self, number: int, pending: Sequence[Trial] = ()) -> Proposal | None:
        for trial in reversed(self.trials):
            if trial.rung < len(self.heights) and trial.number not in self.gone_on:
                height = self.heights[trial.rung]
                costs = trial.costs(self.objectives)
                if any(cost < mean for cost, mean in zip(costs, height, strict=True)):
                    return self.promoted(trial)
        rng, last = self.rng(number), {trial.key: trial for trial in self.trials}
        alive = list(last.values())[-self.population :]
        if self.begun < self.population or len(alive) < self.tournament:
            return self.drawn(number, pending)
        rivals = rng.sample(alive, self.tournament)
        longest = max(trial.rung for trial in rivals)
        best = self.ordered([trial for trial in rivals if trial.rung == longest])[0]
        found = self.mutated(best, rng, pending)
        return found and replace(found, rung=0)


def optuna_search(
    name: str, objectives: Sequence[Objective], *, pruned: bool
) -> Callable[[CurveTable, Sequence[int], float, int, int], list[int]]:
    """Optuna as its authors mean it to be used; the row most like what it suggests answers.

    Rows that were tried do not answer again, which is kinder to it than its own repeats.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def search(
        table: CurveTable, stages: Sequence[int], budget: float, seed: int, finals: int
    ) -> list[int]:
        samplers = {
            "tpe": lambda: optuna.samplers.TPESampler(seed=seed, multivariate=True),
            "nsgaii": lambda: optuna.samplers.NSGAIISampler(seed=seed, population_size=8),
        }
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
        study = optuna.create_study(
            directions=["minimize"] * len(objectives),
            sampler=samplers[name](),
            pruner=pruner if pruned else optuna.pruners.NopPruner(),
        )
        failed = optuna.trial.TrialState.FAIL
        ranges, reached = _ranges(table, optuna.distributions), dict[int, int]()
        while len(reached) < len(table.members):
            trial = study.ask(ranges)
            row = table.row_like(trial.params, list(reached))
            steps, budget = _trained(trial, table, row, stages, budget, seed)
            if budget < 0:
                break
            reached[row] = steps
            loss = table.loss(row, seed, steps)
            values = [loss, float(table.latency[row])][: len(objectives)]
            good = all(np.isfinite(values))
            study.tell(trial, values if good else None, state=None if good else failed)
        best = sorted(reached, key=lambda row: (-reached[row], table.loss(row, seed, reached[row])))
        return best[:finals] if finals else list(reached)

    return search


def _trained(
    trial: Any, table: CurveTable, row: int, stages: Sequence[int], budget: float, seed: int
) -> tuple[int, float]:
    """Train through the stages until the pruner says to stop: steps, and what is left."""
    before = 0
    for place, steps in enumerate(stages):
        budget -= (steps - before) * float(table.price[row])
        before = steps
        if len(stages) > 1:
            trial.report(table.loss(row, seed, steps), 3**place)
            if trial.should_prune():
                break
    return before, budget


def _ranges(table: CurveTable, kinds: Any) -> dict[str, Any]:
    """Optuna's distribution for every decision."""
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for member in table.members for name in member):
        values = sorted({member[name] for member in table.members if name in member}, key=str)
        if all(isinstance(value, int | float) for value in values):
            found[name] = kinds.IntDistribution(int(min(values)), int(max(values)))
        else:
            found[name] = kinds.CategoricalDistribution(values)
    return found
