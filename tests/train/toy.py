"""A tiny task that needs no data: the next symbol of a noisy cycle."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from formwright.arch import Architecture, Frame, LanguageModel, parse
from formwright.model import Model
from formwright.ops import Past

VOCAB, LENGTH = 11, 12
ARCH = "(sf)x2 in transformer_xl(16)"


@dataclass
class ToyBatch:
    inputs: dict[str, Tensor]
    targets: Tensor
    tokens: int
    fresh: bool = True


@dataclass
class ToyPlan:
    seed: int
    rows: int
    asked: list[int] = field(default_factory=list)

    def batch(self, step: int) -> ToyBatch:
        self.asked.append(step)
        generator = torch.Generator().manual_seed(self.seed * 100_003 + step)
        start = torch.randint(VOCAB, (self.rows, 1), generator=generator)
        text = (start + 3 * torch.arange(LENGTH + 1)) % VOCAB
        noise = torch.rand(text.shape, generator=generator) < 0.1
        text = torch.where(noise, torch.randint(VOCAB, text.shape, generator=generator), text)
        tokens = {"tokens": text[:, :-1].clone()}
        return ToyBatch(tokens, text[:, 1:].clone(), self.rows * LENGTH, fresh=step % 4 == 0)


@dataclass
class ToyTask:
    """``poison`` makes the loss of that step not a number."""

    name: str = "toy"
    metric: str = "loss"
    higher_is_better: bool = False
    poison: int | None = None
    frame: Frame = field(default_factory=lambda: Frame(VOCAB, LENGTH, LanguageModel()))
    calls: int = 0

    def sampler(self, *, batch_tokens: int, seed: int, memory: int = 0) -> ToyPlan:
        return ToyPlan(seed, max(1, batch_tokens // LENGTH))

    def loss(self, model: Model, batch: ToyBatch, past: Past | None = None) -> Tensor:
        self.calls += 1
        loss = model.loss(batch.inputs["tokens"], batch.targets, past=past).mean()
        return loss * float("nan") if self.calls - 1 == self.poison else loss

    def score(
        self,
        model: Model,
        split: str = "valid",
        *,
        batch_tokens: int,
        memory: int | None = None,
        limit: int | None = None,
    ) -> dict[str, float]:
        was = model.training
        model.eval()
        with torch.no_grad():
            batch = ToyPlan(999, 8).batch(0)
            loss = float(model.loss(batch.inputs["tokens"], batch.targets).mean())
        model.train(was)
        return {"loss": loss}


def architecture() -> Architecture:
    return parse(ARCH)
