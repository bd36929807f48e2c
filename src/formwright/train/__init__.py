"""Training: one engine and one loop for every kind of model. Knows nothing of search."""

from formwright.train.config import TrainConfig, default_lr
from formwright.train.device import device_of_text
from formwright.train.rates import rate_for
from formwright.train.regularise import regularised
from formwright.train.seeds import Seeds, train_seeds
from formwright.train.training import Result, train

__all__ = [
    "Result",
    "Seeds",
    "TrainConfig",
    "default_lr",
    "device_of_text",
    "rate_for",
    "regularised",
    "train",
    "train_seeds",
]
