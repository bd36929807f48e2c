"""Supernets: one model with the weights of a whole space, run under gates."""

from formwright.supernet.gates import Gate, Gates, Slot
from formwright.supernet.order import reorder
from formwright.supernet.slicing import slicing
from formwright.supernet.supernet import Supernet, option_prices

__all__ = [
    "Gate",
    "Gates",
    "Slot",
    "Supernet",
    "option_prices",
    "reorder",
    "slicing",
]
