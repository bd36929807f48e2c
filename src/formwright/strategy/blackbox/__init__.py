"""Strategies that are asked for something to try and told how good it was. No torch."""

from formwright.strategy.blackbox.base import Strategy, make_strategy, strategy, strategy_names

__all__ = [
    "Strategy",
    "make_strategy",
    "strategy",
    "strategy_names",
]
