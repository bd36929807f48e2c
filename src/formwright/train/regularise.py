"""How much a training is held back from learning its data by heart: by how often it sees them.

Measured by benchmarks/dropout.py.
"""

from typing import Any

from formwright.arch import Architecture
from formwright.train.config import TrainConfig
from formwright.train.data import Task

# From so many readings of the data on: dropout, attention dropout, weight decay.
_STAGES = (
    (30.0, 0.3, 0.1, 0.1),
    (8.0, 0.3, 0.1, 0.05),
    (2.0, 0.1, 0.0, 0.05),
    (1.0, 0.1, 0.0, 0.01),
)


def regularised(config: TrainConfig, task: Task, arch: Architecture, steps: int) -> TrainConfig:
    """The same training with the dropout and the weight decay that its data ask for.

    A text that is seen less than once is learnt without any; what ``config`` asks for is the least.

    Args:
        config: Every other number.
        task: What is learnt.
        arch: What learns it.
        steps: How long.
    """
    seen = epochs(config, task, steps)
    for since, dropout, attention, decay in _STAGES:
        if seen >= since:
            return config.replace(
                dropout=max(config.dropout, dropout),
                attention_dropout=max(config.attention_dropout, attention),
                weight_decay=max(config.weight_decay, decay),
            )
    return config


def epochs(config: TrainConfig, task: Task, steps: int) -> float:
    """How often so many steps see the training data; 0 where a task has no end of them."""
    numbers: dict[str, Any] = {"batch_tokens": config.batch_tokens, "seed": config.seed}
    plan = task.sampler(**numbers, memory=config.memory)
    length = getattr(plan, "steps_per_epoch", 0)
    return steps * config.accumulate / length if length else 0.0
