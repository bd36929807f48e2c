"""Strategies: what to try next, given what has been seen."""
