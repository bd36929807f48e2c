"""Models: an architecture as a torch module, with weights."""

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

__all__ = [
    "Model",
    "build",
    "check_frame",
    "generate",
    "load_model",
    "load_pretrained",
    "read_architecture",
    "save_model",
    "with_frame",
]
