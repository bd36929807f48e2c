"""Training-free scores: a function of an architecture, and where there is evidence for it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch

from formwright.arch import Architecture
from formwright.errors import InputError
from formwright.estimate.base import Estimator, Work, estimators
from formwright.model import Model, build
from formwright.tasks import Task
from formwright.tasks.base import Batch


@dataclass(frozen=True)
class Sample:
    """What a proxy looks at: an architecture, built with fresh weights, and one batch."""

    arch: Architecture
    task: Task | None
    batch: Batch | None
    seed: int

    def model(self) -> Model:
        """The model with its initial weights; a new one each time, as some proxies change it."""
        return build(self.arch, seed=self.seed)

    def loss(self, model: Model) -> torch.Tensor:
        """The loss of the batch, to be differentiated."""
        assert self.task is not None
        assert self.batch is not None
        return self.task.loss(model, self.batch)


Score = Callable[[Sample], float]


@dataclass(frozen=True)
class Proxy:
    """A score whose larger values promise better models. Called with a task, it estimates for it.

    Args:
        name: What it is called.
        score: The function.
        evidence: Where it has been seen to work, and where not.
        paper: Where it comes from.
        needs_data: Whether it looks at a batch of the task.
    """

    name: str
    score: Score
    evidence: str
    paper: str
    needs_data: bool

    def __call__(self, task: str) -> "Proxies":
        return Proxies((self.name,), task)


def proxy(
    name: str, *, evidence: str, paper: str, needs_data: bool = True
) -> Callable[[Score], Proxy]:
    """Make a score known under ``name``."""

    def register(score: Score) -> Proxy:
        made = Proxy(name, score, evidence, paper, needs_data)
        estimators.add(name, made)
        return made

    return register


def get_proxy(name: str) -> Proxy:
    """The proxy called ``name``."""
    found = estimators.get(name)
    if not isinstance(found, Proxy):
        raise InputError(f"The estimator {name!r} is no training-free score; use it by itself.")
    return found


@dataclass(frozen=True)
class Proxies(Estimator):
    """Training-free scores as values of a trial.

    Args:
        names: Which proxies.
        task: Where the batch comes from; those that only count need none.
        batch_tokens: Tokens of that batch.
    """

    names: tuple[str, ...]
    task: str | None = None
    batch_tokens: int = 1024

    def __call__(self, work: Work) -> Mapping[str, float]:
        return self.scores(work.arch, work.seed)

    def scores(self, arch: Architecture, seed: int = 0) -> dict[str, float]:
        """The scores of one architecture."""
        found = [get_proxy(name) for name in self.names]
        sample = Sample(arch, None, None, seed)
        if any(p.needs_data for p in found) and self.task is not None:
            task, batch = _batch(self.task, self.batch_tokens)
            sample = Sample(arch.fitted(task.frame), task, batch, seed)
        return {p.name: p.score(sample) for p in found}


@lru_cache(maxsize=4)
def _batch(task_name: str, batch_tokens: int) -> tuple[Task, Batch]:
    from formwright.estimate.training import known_task  # noqa: PLC0415

    task = known_task(task_name)
    return task, task.sampler(batch_tokens=batch_tokens, seed=0).batch(0)


def total(values: Iterable[torch.Tensor]) -> float:
    """The sum of numbers kept as tensors."""
    return float(torch.stack([value.detach().double() for value in values]).sum())
