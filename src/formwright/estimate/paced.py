"""Training for a fixed time, without trusting a clock: so many steps as a table allows.

Paper: Primer, So et al. 2021, https://arxiv.org/abs/2109.08668, trains every candidate equally
long, so that a fast step pays by itself. Differs from the paper: what a step takes is measured
once for each architecture, in turns with a reference, and kept; the time of a trial is then a
number of steps. A busy machine therefore changes neither how long a candidate learns nor what a
resumed search comes to.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from formwright.arch import arch_id, parse
from formwright.errors import InputError
from formwright.estimate.base import Estimator, Work
from formwright.estimate.training import known_task
from formwright.files import write_atomically
from formwright.train import TrainConfig, pace


@dataclass(frozen=True)
class Paced(Estimator):
    """Another estimator, with the seconds of a trial turned into steps.

    Its values are those of the other one, and ``step_ratio``: what a step takes, as a multiple of
    the reference's. A trial that says steps, and no seconds, is handed on as it is.

    Args:
        inner: What trains: ``Training``, ``Inherited`` or ``Final``.
        task: What is learnt.
        config: How, for the step that is timed.
        reference: Notation of the model whose step is the unit.
        second: Seconds that a step of it takes.
        table: Folder of what was measured, one file for each architecture.
    """

    inner: Any  # an Estimator
    task: str
    config: TrainConfig
    reference: str
    second: float
    table: str

    def __post_init__(self) -> None:
        if not self.second > 0:
            raise InputError(f"second={self.second} must be the seconds of a step, above 0.")

    def __call__(self, work: Work) -> Mapping[str, float]:
        seconds = work.trial.train_seconds
        if seconds is None:
            found: Mapping[str, float] = self.inner(work)
            return found
        ratio = self.ratio(work.arch)
        steps = steps_within(seconds, self.second * ratio)
        trial = replace(work.trial, steps=steps, train_seconds=None)
        timed: Any = work  # a Job, or what stands for one: a frozen record
        return {**self.inner(replace(timed, trial=trial)), "step_ratio": ratio}

    def ratio(self, arch: Any) -> float:
        """What a step takes, measured once."""
        place = Path(self.table) / f"{arch_id(arch)}.json"
        if not place.exists():
            reference = parse(self.reference)
            same = arch_id(reference) == arch_id(arch)
            task = known_task(self.task)
            found = 1.0 if same else pace.step_ratio(arch, reference, task, self.config)
            place.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(place, json.dumps({"step_ratio": found}).encode())
        return float(json.loads(place.read_bytes())["step_ratio"])


def steps_within(seconds: float, step_seconds: float) -> int:
    """Steps that fit into a time, at least one."""
    return max(1, int(seconds / step_seconds + 1e-9))
