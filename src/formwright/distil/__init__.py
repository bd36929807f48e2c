"""Smaller students of a trained model: a teacher, its blocks, and what chooses among them."""

from formwright.distil.blocks import Blocks, BlocksConfig
from formwright.distil.limits import Limit
from formwright.distil.methods import METHODS, Asked, Found, method
from formwright.distil.teacher import Teacher
from formwright.distil.whole import Teaching, distilled

__all__ = [
    "METHODS",
    "Asked",
    "Blocks",
    "BlocksConfig",
    "Found",
    "Limit",
    "Teacher",
    "Teaching",
    "distilled",
    "method",
]
