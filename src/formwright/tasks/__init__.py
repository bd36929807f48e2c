"""Tasks: data, tokenisation, batching, loss and metric, and the frame that they need."""

from formwright.tasks.base import Batch, BatchSampler, Task
from formwright.tasks.registry import load_task, task_guide, task_names

__all__ = ["Batch", "BatchSampler", "Task", "load_task", "task_guide", "task_names"]
