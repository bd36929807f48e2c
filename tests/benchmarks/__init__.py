"""Tests of what benchmarks share. Their files import each other by name, as scripts do."""

from pathlib import Path

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
