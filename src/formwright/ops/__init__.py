"""Operators: the torch modules of the language's nodes, one file each."""

from formwright.ops.base import Builder, Context, Operator, operator, operators
from formwright.ops.past import Past

__all__ = [
    "Builder",
    "Context",
    "Operator",
    "Past",
    "operator",
    "operators",
]
