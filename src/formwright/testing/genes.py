"""What every graph-shaped gene must do: build, train, not look ahead, not see padding."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from formwright.arch import Architecture, Seq2Seq
from formwright.model import Model, build

_BATCH, _LENGTH = 2, 9
_CLOSE = 1e-7  # in float64, as a share of the largest number


@dataclass(frozen=True)
class Examined:
    """What became of one gene.

    Args:
        finite: Whether its answer and its loss over all steps were finite.
        causal: Whether its decoder never looked ahead.
        blind: Whether padding never changed what real tokens gave.
    """

    finite: bool
    causal: bool
    blind: bool

    @property
    def sound(self) -> bool:
        """Whether it kept the laws; one whose numbers are not finite has nothing to compare."""
        return not self.finite or (self.causal and self.blind)


def examine(arch: Architecture, seed: int = 0, steps: int = 10) -> Examined:
    """Build an architecture, hold it to the laws, and train it for a few steps.

    Args:
        arch: A whole model, bound to a frame.
        seed: Of weights and inputs.
        steps: How many are taken.
    """
    model = build(arch.check(), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    vocab = model.frame.vocab

    def words(length: int = _LENGTH) -> Tensor:
        return torch.randint(vocab, (_BATCH, length), generator=generator)

    given = {"tokens": words()}
    if isinstance(arch.backbone, Seq2Seq):
        given["source"] = words()
    wide = model.double().eval()
    with torch.no_grad():
        finite = bool(torch.isfinite(wide(**given)).all())
        causal = _causal(wide, given, words(1))
        blind = _blind(wide, given, words())
    return Examined(finite and _trains(wide, given, steps), causal, blind)


def _causal(model: Model, given: dict[str, Tensor], other: Tensor) -> bool:
    """Whether the answer up to a token stays as the last one is replaced."""
    if not any(site.causal for _, _, site in model.arch.stacks()):
        return True
    changed = {**given, "tokens": torch.cat((given["tokens"][:, :-1], other), dim=1)}
    return _same(model(**given)[:, :-1], model(**changed)[:, :-1])


def _blind(model: Model, given: dict[str, Tensor], other: Tensor) -> bool:
    """Whether what padding holds matters: of the source in translators, else of the text."""
    name = "source" if "source" in given else "tokens"
    mask = torch.ones_like(given[name], dtype=torch.bool)
    mask[0, 6:] = False
    changed = torch.where(mask, given[name], other)
    masks: Any = {"source_mask" if name == "source" else "mask": mask}
    one = model(**given, **masks)
    two = model(**{**given, name: changed}, **masks)
    return _same(one, two) if name == "source" else _same(one[mask], two[mask])


def _same(one: Tensor, two: Tensor) -> bool:
    if not bool(torch.isfinite(one).all()):
        return True  # nothing can be said of it
    largest = max(1.0, float(one.abs().max()))
    return float((one - two).abs().max()) <= _CLOSE * largest


def _trains(model: Model, given: dict[str, Tensor], steps: int) -> bool:
    """Take steps that lower the mean square of the answer; whether all losses were finite."""
    model.train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        loss = model(**given).square().mean()
        if not math.isfinite(loss.item()):
            return False
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    return True
