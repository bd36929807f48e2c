"""What tests are made of: also for those who write operators of their own."""

from formwright.testing.architectures import random_architecture
from formwright.testing.cells import random_cell, random_cell_architecture
from formwright.testing.conformance import OperatorTestCase
from formwright.testing.formulas import random_formula
from formwright.testing.recipes import RecipeTestCase
from formwright.testing.strategies import StrategyTestCase

__all__ = [
    "OperatorTestCase",
    "RecipeTestCase",
    "StrategyTestCase",
    "random_architecture",
    "random_cell",
    "random_cell_architecture",
    "random_formula",
]
