"""Optimisers: AdamW, Adafactor and Muon from torch, LAMB as Transformer-XL was trained with.

LAMB: You et al. 2019, https://arxiv.org/abs/1904.00962. Differs from the paper: no bias
correction, and the norm of the weights is capped at 10, as in the runs of PAR Transformer.

Muon: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/, for the matrices of layers and
with steps as large as AdamW's (Liu et al. 2025, https://arxiv.org/abs/2502.16982), so that the same
rates suit both; AdamW for all else.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from formwright.train.config import TrainConfig

SCALE = "scale"  # of a group's rate, as a share of the run's
_LAYER = re.compile(r"stacks\.(\w+)\.layers\.(\d+)\.")


def make_optimiser(model: nn.Module, config: TrainConfig) -> Optimizer:
    """The optimiser of a run. Vectors (biases, norms) are not decayed, matrices are.

    With ``layer_decay`` the rate falls from the last layer of each stack to its first, and once
    more to the embedding: what a pre-trained model has learnt first is changed least.
    """
    scales = _scales(model, config.layer_decay)
    parameters = [p for p in model.parameters() if p.requires_grad]
    if config.optimiser == "muon":
        mine = {id(p) for p in _matrices(model)}
        matrices = [p for p in parameters if id(p) in mine]
        rest = [p for p in parameters if id(p) not in mine]
        return Muon(_groups(matrices, config, scales), _groups(rest, config, scales), config)
    groups = _groups(parameters, config, scales)
    if config.optimiser == "adafactor":
        return torch.optim.Adafactor(groups, lr=config.lr)
    if config.optimiser == "lamb":
        return Lamb(groups, lr=config.lr, betas=config.betas)
    return torch.optim.AdamW(groups, lr=config.lr, betas=config.betas, foreach=True)


def _groups(
    parameters: list[nn.Parameter], config: TrainConfig, scales: dict[int, float]
) -> list[dict[str, Any]]:
    """Parameters that are decayed, and those that are not, by the scale of their rate."""
    groups: list[dict[str, Any]] = []
    for scale in sorted({scales[id(p)] for p in parameters}, reverse=True):
        here = [p for p in parameters if scales[id(p)] == scale]
        for decay, kept in (
            (config.weight_decay, [p for p in here if p.dim() >= 2]),
            (0.0, [p for p in here if p.dim() < 2]),
        ):
            if kept:
                groups.append({"params": kept, "weight_decay": decay, SCALE: scale})
    return groups


def _scales(model: nn.Module, decay: float) -> dict[int, float]:
    """The share of the rate that each parameter learns with."""
    places = {name: _LAYER.match(name) for name, _ in model.named_parameters()}
    depth: dict[str, int] = {}
    for found in places.values():
        if found is not None:
            depth[found[1]] = max(depth.get(found[1], 0), int(found[2]) + 1)
    deepest = max(depth.values(), default=0)
    scales = {}
    for name, parameter in model.named_parameters():
        found = places[name]
        if found is not None:
            below = depth[found[1]] - 1 - int(found[2])
        else:
            below = deepest if name.startswith(("embedding.", "absolute.", "positions.")) else 0
        scales[id(parameter)] = decay**below
    return scales


def _matrices(model: nn.Module) -> Iterator[Tensor]:
    """The maps inside layers; not tables of words or positions, heads, or kernels."""
    for name, module in model.named_modules():
        if name.startswith("stacks.") and isinstance(module, nn.Linear):
            yield module.weight


class Muon(Optimizer):
    """Torch's Muon for some matrices and AdamW for the rest, as one optimiser with one state."""

    def __init__(
        self, matrices: list[dict[str, Any]], rest: list[dict[str, Any]], config: TrainConfig
    ) -> None:
        self.parts: list[Optimizer] = []
        if matrices:
            muon = torch.optim.Muon(matrices, lr=config.lr, adjust_lr_fn="match_rms_adamw")
            self.parts.append(muon)
        if rest:
            adamw = torch.optim.AdamW(rest, lr=config.lr, betas=config.betas, foreach=True)
            self.parts.append(adamw)
        super().__init__([group for part in self.parts for group in part.param_groups], {})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update."""
        first = 0
        for part in self.parts:  # groups and state are new objects after loading
            part.state = self.state
            part.param_groups = self.param_groups[first : first + len(part.param_groups)]
            first += len(part.param_groups)
            part.step()


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
