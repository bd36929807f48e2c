"""Published architectures, with their papers and the figures those report. No torch."""

from formwright.zoo.registry import Entry, Paper, entries, get, names, published

__all__ = ["Entry", "Paper", "entries", "get", "names", "published"]
