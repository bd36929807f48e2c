"""What one training step takes of a processor, measured before anything is planned."""

import time

import torch

from formwright.arch import Architecture
from formwright.model import build
from formwright.train.config import TrainConfig
from formwright.train.data import Task
from formwright.train.distributed import World
from formwright.train.engine import Engine

_WARM, _TIMED = 2, 5  # steps


def step_seconds(arch: Architecture, task: Task, config: TrainConfig, device: str = "cpu") -> float:
    """Seconds of a processor for a step, so that it does not depend on what else runs."""
    where = torch.device(device)
    model = build(arch.fitted(task.frame).check(), seed=config.seed).to(where)
    engine = Engine(model, task, config, where, World())
    try:
        for _ in range(_WARM):
            engine.step()
        began = time.process_time() if where.type == "cpu" else time.perf_counter()
        for _ in range(_TIMED):
            loss, _ = engine.step()
        loss.item()  # whatever is still under way elsewhere
        ended = time.process_time() if where.type == "cpu" else time.perf_counter()
    finally:
        engine.close()
    return (ended - began) / _TIMED
