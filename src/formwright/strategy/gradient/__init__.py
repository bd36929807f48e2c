"""Search while a supernet trains: who holds the gates, and the loop that moves them."""

from formwright.strategy.gradient.bernoulli import BernoulliPolicy
from formwright.strategy.gradient.config import SearchConfig
from formwright.strategy.gradient.gumbel import GumbelPolicy, Temperature
from formwright.strategy.gradient.listed import ListedPolicy
from formwright.strategy.gradient.policy import GatePolicy
from formwright.strategy.gradient.real import RealPolicy
from formwright.strategy.gradient.sandwich import SandwichPolicy
from formwright.strategy.gradient.search import Diverged, SearchResult, search_supernet
from formwright.strategy.gradient.single_path import SinglePathPolicy
from formwright.strategy.gradient.stepping import SupernetSearch
from formwright.strategy.gradient.uniform import UniformPolicy

__all__ = [
    "BernoulliPolicy",
    "Diverged",
    "GatePolicy",
    "GumbelPolicy",
    "ListedPolicy",
    "RealPolicy",
    "SandwichPolicy",
    "SearchConfig",
    "SearchResult",
    "SinglePathPolicy",
    "SupernetSearch",
    "Temperature",
    "UniformPolicy",
    "search_supernet",
]
