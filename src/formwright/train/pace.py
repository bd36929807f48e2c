"""What one training step takes of a processor, measured before anything is planned."""

import time

from formwright.arch import Architecture
from formwright.model import build
from formwright.train.config import TrainConfig
from formwright.train.data import Task
from formwright.train.device import device_of_text
from formwright.train.distributed import World
from formwright.train.engine import Engine

_WARM, _TIMED = 2, 5  # steps


def step_seconds(
    arch: Architecture, task: Task, config: TrainConfig, device: str = "cpu"
) -> tuple[float, float]:
    """Seconds of a processor for a step, whatever else runs, and the share of it that was had."""
    where = device_of_text(device)
    model = build(arch.fitted(task.frame).check(), seed=config.seed).to(where)
    engine = Engine(model, task, config, where, World())
    try:
        for _ in range(_WARM):
            engine.step()
        started, began = time.perf_counter(), time.process_time()
        for _ in range(_TIMED):
            loss, _ = engine.step()
        loss.item()  # whatever is still under way elsewhere
        taken, worked = time.perf_counter() - started, time.process_time() - began
    finally:
        engine.close()
    if where.type != "cpu":  # the processor only tells another one what to do
        return taken / _TIMED, 1.0
    return worked / _TIMED, min(1.0, worked / max(taken, 1e-9))
