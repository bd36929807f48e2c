"""Models: an architecture as a torch module, with weights."""

from formwright.model.build import build, load_model, save_model
from formwright.model.generate import generate
from formwright.model.model import Model

__all__ = [
    "Model",
    "build",
    "generate",
    "load_model",
    "save_model",
]
