"""What one training step takes of a processor, measured before anything is planned."""

import statistics
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


def step_ratio(
    arch: Architecture, reference: Architecture, task: Task, config: TrainConfig, rounds: int = 7
) -> float:
    """What a training step of one model takes of a processor, as a multiple of another's.

    Both take turns, so that whatever else runs slows both; the median of the ratios counts.
    """
    where = device_of_text("cpu")
    engines = [
        Engine(build(a.fitted(task.frame).check(), seed=0), task, config, where, World())
        for a in (arch, reference)
    ]
    try:
        for engine in engines:
            for _ in range(_WARM):
                engine.step()
        ratios = [_worked(engines[0]) / _worked(engines[1]) for _ in range(rounds)]
    finally:
        for engine in engines:
            engine.close()
    return statistics.median(ratios)


def _worked(engine: Engine) -> float:
    """Seconds of a processor that the next step takes."""
    began = time.process_time()
    loss, _ = engine.step()
    loss.item()
    return max(1e-9, time.process_time() - began)
