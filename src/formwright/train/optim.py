"""Optimisers: AdamW and Adafactor from torch, LAMB as Transformer-XL was trained with.

LAMB: You et al. 2019, https://arxiv.org/abs/1904.00962. Differs from the paper: no bias
correction, and the norm of the weights is capped at 10, as in the runs of PAR Transformer.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from formwright.train.config import TrainConfig


def make_optimiser(model: nn.Module, config: TrainConfig) -> Optimizer:
    """The optimiser of a run. Vectors (biases, norms) are not decayed, matrices are."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.optimiser == "adafactor":
        return torch.optim.Adafactor(groups, lr=config.lr)
    if config.optimiser == "lamb":
        return Lamb(groups, lr=config.lr, betas=config.betas)
    return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, foreach=True)


class Lamb(Optimizer):
    """Adam's direction, scaled layer by layer to the size of the weights."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update."""
        for group in self.param_groups:
            live = [p for p in group["params"] if p.grad is not None]
            if live:
                self._update(live, group)

    def _update(self, live: list[Tensor], group: dict[str, Any]) -> None:
        grads = [p.grad for p in live if p.grad is not None]
        for p in live:
            if not self.state[p]:
                self.state[p] = {"m": torch.zeros_like(p), "v": torch.zeros_like(p)}
        m, v = ([self.state[p][key] for p in live] for key in ("m", "v"))
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(m, grads, 1 - beta1)
        torch._foreach_mul_(v, beta2)
        torch._foreach_addcmul_(v, grads, grads, 1 - beta2)
        spread = torch._foreach_sqrt(v)
        torch._foreach_add_(spread, group["eps"])
        direction = torch._foreach_div(m, spread)
        if group["weight_decay"]:
            torch._foreach_add_(direction, live, alpha=group["weight_decay"])
        for p, r in zip(live, direction, strict=True):
            size, length = p.norm().clamp(max=10.0), r.norm()
            trust = torch.where((size > 0) & (length > 0), size / (length + group["eps"]), 1.0)
            p.sub_(r * (group["lr"] * trust))
