"""Runtimes: how an architecture becomes a function that runs once, on a target.

One file per runtime, each with ``prepare(step, arguments, target) -> run``. They are imported
when they are used, since most are optional; ``formwright.cost.machine`` knows them by name.
"""

from importlib import import_module
from typing import Any

import torch

from formwright.arch import Architecture
from formwright.cost.blank import Arena, blank_model
from formwright.cost.machine import runtimes
from formwright.cost.paired import Run
from formwright.cost.step import make_step
from formwright.cost.target import Target

__all__ = ["new_arena", "prepare"]


def new_arena(target: Target, *, spare: bool = True) -> Arena:
    """Memory for models on a target; without ``spare``, not a byte more than they need."""
    bf16 = target.dtype == "bf16" and runtimes.get(target.runtime).package == "torch"
    dtype = torch.bfloat16 if bf16 else torch.float32
    return Arena(dtype) if spare else Arena(dtype, chunk=1)


def prepare(arch: Architecture, target: Target, arena: Arena | None = None) -> Run:
    """Build a model with meaningless weights; calling the result runs it once on the target."""
    model = blank_model(arch, arena or new_arena(target))
    step, arguments = make_step(model, target)
    runtime: Any = import_module(runtimes.get(target.runtime).module)
    run: Run = runtime.prepare(step, arguments, target)
    return run
