"""Training: one loop for every kind of model. Knows nothing of search."""

from formwright.train.config import TrainConfig, default_lr
from formwright.train.loop import Result, train
from formwright.train.seeds import Seeds, train_seeds

__all__ = ["Result", "Seeds", "TrainConfig", "default_lr", "train", "train_seeds"]
