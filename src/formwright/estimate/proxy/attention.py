"""Scores that look into the heads of attention."""

# b example, n token, h head, d channel

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from formwright.estimate.proxy.base import Sample, proxy, total
from formwright.model import Model
from formwright.ops.attention.attention import AttentionOp
from formwright.train.distill import captured

SERIANNI = "https://aclanthology.org/2023.acl-long.142"


@proxy(
    "attention_confidence",
    paper=SERIANNI,
    evidence="Correlates weakly (Kendall about 0.3) with quality on BERT-like spaces.",
)
def attention_confidence(sample: Sample) -> float:
    """The mean over heads of the largest attention weight of each token."""
    model = sample.model().eval()
    layers = _attentions(model)
    with ExitStack() as stack, torch.no_grad():
        found = [stack.enter_context(captured(layer)) for layer in layers]
        sample.loss(model)
    sure = [
        _confidence(layer, parts)
        for layer, parts in zip(layers, found, strict=True)
        if "query" in parts and "key" in parts
    ]
    return float(torch.stack(sure).mean()) if sure else 0.0


def _confidence(layer: AttentionOp, parts: dict[str, Tensor]) -> Tensor:
    heads, groups = layer.node.heads, layer.node.groups
    q = parts["query"].unflatten(-1, (heads, -1)).transpose(1, 2)
    k = parts["key"].unflatten(-1, (groups, -1)).transpose(1, 2)
    k = k.repeat_interleave(heads // groups, dim=1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5  # (b, h, n, n)
    if layer.causal:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(ahead, float("-inf"))
    return scores.softmax(dim=-1).amax(dim=-1).mean()


@proxy(
    "head_importance",
    paper="https://arxiv.org/abs/1905.10650",
    evidence="Says which heads can be pruned after training; at the initial weights it is "
    "weak, below parameter counts.",
)
def head_importance(sample: Sample) -> float:
    """Sum over heads of |output x gradient|: what the loss would lose without them."""
    model = sample.model().eval()
    with _mixed(model) as mixed:
        sample.loss(model).backward()
    parts = [(x * x.grad).unflatten(-1, (heads, -1)) for heads, x in mixed if x.grad is not None]
    return total(part.sum(dim=-1).abs().mean(dim=(0, 1)).sum() for part in parts) if parts else 0.0


@contextmanager
def _mixed(model: Model) -> Iterator[list[tuple[int, Tensor]]]:
    """Heads and what they give to the output map, (b, n, h d), of every attention."""
    found: list[tuple[int, Tensor]] = []

    def keep(heads: int) -> object:
        def hook(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            inputs[0].retain_grad()
            found.append((heads, inputs[0]))

        return hook

    handles = [
        layer.out.register_forward_pre_hook(keep(layer.node.heads))  # type: ignore[arg-type]
        for layer in _attentions(model)
        if layer.out is not None
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


def _attentions(model: Model) -> list[AttentionOp]:
    return [module for module in model.modules() if isinstance(module, AttentionOp)]
