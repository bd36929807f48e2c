"""The same run with several seeds: one number alone says little."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.arch import Architecture
from formwright.model import Model
from formwright.train.config import TrainConfig
from formwright.train.data import Task
from formwright.train.loop import OnProgress
from formwright.train.training import Result, train


@dataclass(frozen=True)
class Seeds:
    """Results of several seeds. Runs that diverged count in ``results`` only."""

    results: tuple[Result, ...]

    @property
    def values(self) -> list[float]:
        """The metric of every run that finished."""
        return [r.value for r in self.results if r.value is not None]

    @property
    def mean(self) -> float | None:
        """Mean of the metric."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds; None with fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def train_seeds(
    what: Architecture | Callable[[int], Model],
    task: Task,
    config: TrainConfig,
    seeds: Sequence[int],
    *,
    out: str | Path | None = None,
    on_event: OnProgress | None = None,
    **options: Any,
) -> Seeds:
    """Train once per seed, each in a folder of its own below ``out``.

    ``what`` may be a function that gives the model to go on from, for a seed.
    """
    results = []
    for seed in seeds:
        folder = Path(out) / f"seed-{seed}" if out is not None else None
        changed = config.replace(seed=seed)
        begun = what if isinstance(what, Architecture) else what(seed)
        _, result = train(begun, task, changed, out=folder, on_event=on_event, **options)
        results.append(result)
        if result.state == "interrupted":
            break
    return Seeds(tuple(results))
