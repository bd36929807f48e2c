"""Spaces: sets of architectures, declared once as an architecture with choices left open."""

from formwright.space.cell_rules import KeepsNorms, ReadsSource, ResidualPath
from formwright.space.choice import Choice, Derived, Maybe, OneOf, Repeat, SomeOf, Span
from formwright.space.constraint import Constraint, Unsatisfied, Where
from formwright.space.limit import Limit
from formwright.space.part import Decisions
from formwright.space.registry import (
    named_space,
    published_space,
    space_data,
    space_for,
    space_from_data,
    space_kind,
    space_names,
)
from formwright.space.space import (
    Comparable,
    Countable,
    Crossable,
    Encodable,
    Enumerable,
    Guided,
    Invertible,
    Looks,
    Space,
)
from formwright.space.tree import TreeSpace

__all__ = [
    "Choice",
    "Comparable",
    "Constraint",
    "Countable",
    "Crossable",
    "Decisions",
    "Derived",
    "Encodable",
    "Enumerable",
    "Guided",
    "Invertible",
    "KeepsNorms",
    "Limit",
    "Looks",
    "Maybe",
    "OneOf",
    "ReadsSource",
    "Repeat",
    "ResidualPath",
    "SomeOf",
    "Space",
    "Span",
    "TreeSpace",
    "Unsatisfied",
    "Where",
    "named_space",
    "published_space",
    "space_data",
    "space_for",
    "space_from_data",
    "space_kind",
    "space_names",
]
