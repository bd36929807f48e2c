"""Several runs on one page: what they found at equal cost, and whether that says anything."""

from formwright.report.compare.page import comparison_html
from formwright.report.compare.runs import Runs, gather_runs
from formwright.report.compare.standing import Standing, standing
from formwright.report.compare.write import write_comparison

__all__ = [
    "Runs",
    "Standing",
    "comparison_html",
    "gather_runs",
    "standing",
    "write_comparison",
]
