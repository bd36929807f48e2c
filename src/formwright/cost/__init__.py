"""What an architecture costs: exact counts, without building it."""

from formwright.cost.count import Counts, Part, count

__all__ = [
    "Counts",
    "Part",
    "count",
]
