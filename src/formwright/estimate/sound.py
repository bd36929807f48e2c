"""A look at whether a model can be trained at all, before any time is spent on it.

Primer's authors found that 78 % of random programs cannot be trained for five minutes. A model is
refused that gives numbers that are not finite, gives the same for every token, has no gradient, or
whose loss explodes within a few steps.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from formwright.estimate.base import Diverged, Estimator, Work
from formwright.estimate.training import known_task
from formwright.model import Model, build
from formwright.tasks import Task
from formwright.train import TrainConfig, rate_for
from formwright.train.device import device_of_text
from formwright.train.distributed import World
from formwright.train.engine import Engine

_FLAT = 1e-6  # a spread over tokens, as a share of the size, that is none
_EXPLODED = 3.0  # a loss, as a multiple of the first one


@dataclass(frozen=True)
class Sound(Estimator):
    """Raises ``Diverged`` where training would come to nothing; no values otherwise.

    A trial that continues another was looked at before.

    Args:
        task: What is learnt.
        config: How it would be trained.
        steps: How many are taken to see.
        fair: Whether the rate is fitted to the model's shape, as in ``Training``.
    """

    task: str
    config: TrainConfig
    steps: int = 4
    fair: bool = False

    def __call__(self, work: Work) -> Mapping[str, float]:
        if work.previous is None:
            task = known_task(self.task)
            model = build(work.arch.fitted(task.frame).check(), seed=work.seed)
            rate = rate_for(work.arch, self.config.lr) if self.fair else self.config.lr
            config = self.config.replace(seed=work.seed, lr=rate, steps=max(1, self.steps))
            reason = fault(model, task, config)
            if reason:
                raise Diverged(f"it cannot be trained: {reason}")
        return {}


def fault(model: Model, task: Task, config: TrainConfig) -> str:
    """Why a model cannot be trained, in a few words; empty where nothing speaks against it."""
    engine = Engine(model, task, config, device_of_text("cpu"), World())
    try:
        found = _at_rest(model, task, engine)
        if not found:
            found = _in_motion(engine, config.steps or 1)
    finally:
        engine.close()
    return found


def _at_rest(model: Model, task: Task, engine: Engine) -> str:
    """What the first batch shows, before anything was learnt."""
    batch: Any = engine.fetch()[0]
    loss = task.loss(model, batch)
    if not math.isfinite(loss.item()):
        return f"its first loss is {loss.item()}."
    model.zero_grad()
    loss.backward()
    gradients = [p.grad for p in model.stacks.parameters() if p.grad is not None]
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
    model.zero_grad()
    if not math.isfinite(norm):
        return f"its gradient is {norm}."
    if norm == 0:
        return "no gradient reaches its layers."
    read: Any = {name: t for name, t in batch.inputs.items() if not name.startswith("other")}
    with torch.no_grad():
        x, _ = model.features(**read)
    flat = x.flatten(0, -2)  # (token, channel)
    if float(flat.std(dim=0).max()) <= _FLAT * float(flat.abs().max()):
        return "it gives the same for every token."
    return ""


def _in_motion(engine: Engine, steps: int) -> str:
    """What a few steps show."""
    first = None
    for number in range(steps):
        loss = engine.step()[0].item()
        first = loss if first is None else first
        if not math.isfinite(loss) or loss > _EXPLODED * max(first, 1.0):
            return f"its loss is {loss:.4g} after {number + 1} steps, and was {first:.4g}."
    return ""
