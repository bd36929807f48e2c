"""Models: an architecture as a torch module, with weights."""

from formwright.model.beside import Pooling, labels_of, pooling_of
from formwright.model.build import (
    build,
    check_frame,
    load_model,
    read_architecture,
    save_model,
    with_frame,
)
from formwright.model.generate import generate
from formwright.model.model import Model
from formwright.model.pretrained import load_pretrained
from formwright.model.stock import Stock, stock

__all__ = [
    "Model",
    "Pooling",
    "Stock",
    "build",
    "check_frame",
    "generate",
    "labels_of",
    "load_model",
    "load_pretrained",
    "pooling_of",
    "read_architecture",
    "save_model",
    "stock",
    "with_frame",
]
