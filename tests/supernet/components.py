"""A small BERT cut into components, for tests of the cut and of those who search it."""

from typing import Any

import torch

from formwright.arch.frame import Frame, Tag
from formwright.model import Model, build
from formwright.space.components import Cut
from formwright.strategy.gradient import RealPolicy
from formwright.supernet import Supernet
from formwright.supernet.parts import cut_into

FRAME = Frame(20, 12, Tag(5))
CUT = Cut(layers=2, width=16, heads=4, inner=32, head_parts=4, inner_parts=4)


def shaken(model: Model) -> Model:
    """In double precision, biases and norms moved off their special first values."""
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in model.double().parameters():
            p.add_(torch.randn(p.shape, generator=chance) * 0.2)
    return model.eval()


def supernet_of(cut: Cut = CUT) -> tuple[Supernet, Model]:
    """A whole network, and a supernet with its weights."""
    whole = shaken(build(cut.baseline(FRAME)))
    supernet = Supernet(cut.components(FRAME)).double().eval()
    cut_into(supernet, whole, cut)
    return supernet, whole


def real(supernet: Supernet, **options: Any) -> RealPolicy:
    """Real gates that stand for the whole network."""
    start = {name: 1.0 for name in supernet.slots if name.startswith("mean")}
    return RealPolicy(supernet, start=start, **options)
