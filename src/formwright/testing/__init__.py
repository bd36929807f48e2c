"""What tests are made of: also for those who write operators, spaces or strategies of their own."""

from formwright.testing.architectures import random_architecture
from formwright.testing.cells import random_cell, random_cell_architecture
from formwright.testing.conformance import OperatorTestCase
from formwright.testing.formulas import random_formula
from formwright.testing.programs import random_program
from formwright.testing.recipes import RecipeTestCase
from formwright.testing.spaces import SpaceTestCase
from formwright.testing.strategies import StrategyTestCase

__all__ = [
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
