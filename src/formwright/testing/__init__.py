"""What tests are made of: also for those who write operators, spaces, recipes ... of their own.

Names are loaded when they are first used, so that the processes of an executor need no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from formwright.testing.architectures import random_architecture
    from formwright.testing.cells import random_cell, random_cell_architecture
    from formwright.testing.conformance import OperatorTestCase
    from formwright.testing.executors import ExecutorTestCase
    from formwright.testing.formulas import random_formula
    from formwright.testing.programs import random_program
    from formwright.testing.recipes import RecipeTestCase
    from formwright.testing.spaces import SpaceTestCase
    from formwright.testing.strategies import StrategyTestCase

__all__ = [
    "ExecutorTestCase",
    "OperatorTestCase",
    "RecipeTestCase",
    "SpaceTestCase",
    "StrategyTestCase",
    "random_architecture",
    "random_cell",
    "random_cell_architecture",
    "random_formula",
    "random_program",
]

_HOMES = {
    "ExecutorTestCase": "executors",
    "OperatorTestCase": "conformance",
    "RecipeTestCase": "recipes",
    "SpaceTestCase": "spaces",
    "StrategyTestCase": "strategies",
    "random_architecture": "architectures",
    "random_cell": "cells",
    "random_cell_architecture": "cells",
    "random_formula": "formulas",
    "random_program": "programs",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'formwright.testing' has no attribute {name!r}")
    return getattr(import_module(f"formwright.testing.{_HOMES[name]}"), name)
