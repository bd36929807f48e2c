"""Which heads, inner channels and channels of the stream matter most, measured on data.

Small members take the first of each, so that the order decides what they begin with.

Heads: how much the loss would change without them, to first order (Michel et al. 2019,
https://arxiv.org/abs/1905.10650). Channels: mean absolute activation times the norm of the weights
that read it, after Wanda (Sun et al. 2023, https://arxiv.org/abs/2306.11695), summed over all who
read the stream.

b batch, n token, h head, c channel
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from formwright.errors import InputError, SpecError
from formwright.model import Model
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.feedforward.feedforward import FeedForwardOp
from formwright.supernet.order import reorder

STREAM = ""  # stands for the channels of the stream, among paths of operators
Scores = dict[str, Tensor]


def importance(model: Model, losses: Iterable[Callable[[Model], Tensor]]) -> Scores:
    """Scores of heads and inner channels by the path of their operator, and of the stream.

    Args:
        model: A plain model; it is not changed.
        losses: Each reads one batch and gives its loss.
    """
    found: Scores = defaultdict(lambda: torch.zeros(()))
    read = 0
    with _watched(model) as seen:
        for loss in losses:
            loss(model).backward()
            for path, module in model.named_modules():
                for name, score in seen.pop(path, {}).items():
                    key = STREAM if name == STREAM else path
                    found[key] = found[key] + _score(module, name, score)
            model.zero_grad(set_to_none=True)
            read += 1
    if not read:
        raise InputError("Importance is measured on data; give at least one batch.")
    return {name: score / read for name, score in found.items()}


def sort_slices(model: Model, losses: Iterable[Callable[[Model], Tensor]]) -> list[str]:
    """Put what matters most first, wherever the order is free; what the model computes stays.

    Args:
        model: Built by ``transfer.remembering``; changed in place.
        losses: As of ``importance``.

    Returns:
        What was sorted: paths of operators, and "" for the stream.
    """
    done = []
    for path, score in importance(model, losses).items():
        order = torch.argsort(score, descending=True, stable=True).tolist()
        try:
            reorder(model, order, path or None)
        except SpecError:  # positions, or shared keys, fix their order
            continue
        done.append(path)
    return done


def _score(module: nn.Module, name: str, seen: tuple[Tensor, Tensor | None]) -> Tensor:
    """What one batch says of an operator's parts."""
    x, mask = seen
    if isinstance(module, AttentionOp) and name != STREAM:
        assert x.grad is not None
        heads = (x.detach() * x.grad).unflatten(-1, (module.node.heads, -1))  # (b, n, h, c)
        return heads.sum(dim=(1, 3)).abs().mean(dim=0)
    readers: list[Any] = _readers(module) if name == STREAM else [module.get_submodule("down")]
    size = x.detach().abs()
    if mask is not None:
        size = size * mask.unsqueeze(-1).to(size)
        size = size.sum(dim=(0, 1)) / mask.sum().clamp(min=1)
    else:
        size = size.mean(dim=(0, 1))
    squares = sum(m.weight.detach().square().sum(dim=0) for m in readers)
    score: Tensor = size * squares.sqrt()
    return score / score.sum().clamp(min=1e-12) if name == STREAM else score


def _readers(module: nn.Module) -> list[Any]:
    """The maps of an operator that read the stream."""
    names = ("query", "key", "value", "up", "gate")
    found = (getattr(module, name, None) for name in names)
    return [part for part in found if isinstance(part, nn.Linear)]


@contextmanager
def _watched(model: Model) -> Iterator[dict[str, dict[str, tuple[Tensor, Tensor | None]]]]:
    """Note what operators read, and what their last maps do, while inside."""
    seen: dict[str, dict[str, tuple[Tensor, Tensor | None]]] = defaultdict(dict)
    with ExitStack() as hooks:
        for path, module in model.named_modules():
            if not isinstance(module, AttentionOp | FeedForwardOp):
                continue
            last = module.out if isinstance(module, AttentionOp) else module.down
            if last is None:
                continue
            hooks.callback(module.register_forward_pre_hook(_entering(seen, path)).remove)
            hooks.callback(last.register_forward_pre_hook(_leaving(seen, path)).remove)
        yield seen


def _entering(seen: dict[str, Any], path: str) -> Callable[..., None]:
    def hook(module: nn.Module, given: tuple[Any, ...]) -> None:
        x, ctx = given
        seen[path][STREAM] = x.detach(), ctx.mask

    return hook


def _leaving(seen: dict[str, Any], path: str) -> Callable[..., None]:
    def hook(module: nn.Module, given: tuple[Tensor, ...]) -> None:
        (x,) = given
        if x.requires_grad:
            x.retain_grad()
        mask = seen[path][STREAM][1] if STREAM in seen[path] else None
        seen[path]["parts"] = x, mask

    return hook
