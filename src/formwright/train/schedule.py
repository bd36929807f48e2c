"""Learning rates over time, as pure functions of where a run stands.

inverse_sqrt: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
wsd (warm-up, stable, decay): Hägele et al. 2024, https://arxiv.org/abs/2405.18392, with the fall
that they found best, 1 - sqrt(share of the cool-down that is over)
"""

import math

from formwright.train.config import TrainConfig


def rate(config: TrainConfig, step: int, progress: float) -> float:
    """The learning rate of update ``step`` (counted from 0).

    Args:
        config: Peak, end, warm-up and shape.
        step: Which update this is; the warm-up counts in steps.
        progress: How far the run is, from 0 to 1, by steps or by time, whichever ends first.
    """
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.schedule == "inverse_sqrt":
        start = max(config.warmup, 1)
        return config.lr * warm * math.sqrt(start / max(step + 1, start))
    if config.schedule == "constant":
        return config.lr * warm
    if config.schedule == "wsd":
        fallen = math.sqrt(_cooled(config, step, progress))
        return warm * (config.lr + (config.lr_end - config.lr) * fallen)
    done = _after_warmup(config, step, progress)
    left = (1 + math.cos(math.pi * done)) / 2 if config.schedule == "cosine" else 1 - done
    return warm * (config.lr_end + (config.lr - config.lr_end) * left)


def _cooled(config: TrainConfig, step: int, progress: float) -> float:
    """How much of the cool-down is over."""
    if config.cooldown == 0:
        return 0.0
    by_steps = (step + 1) / config.steps if config.steps is not None else 0.0
    by_time = progress if config.seconds is not None else 0.0
    done = (max(by_steps, by_time) - (1 - config.cooldown)) / config.cooldown
    return min(1.0, max(0.0, done))


def _after_warmup(config: TrainConfig, step: int, progress: float) -> float:
    """How far the falling part of the schedule is."""
    if config.steps is None:
        return min(1.0, progress)
    falling = config.steps - config.warmup
    by_steps = (step + 1 - config.warmup) / falling if falling > 0 else 0.0
    by_time = progress if config.seconds is not None else 0.0
    return min(1.0, max(0.0, by_steps, by_time))
