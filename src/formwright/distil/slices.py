"""The most important heads and channels of a layer, and the layer that is left of it.

The last map of an attention or a feed-forward adds up what its heads or inner channels give. Where
some of them go, the others can take over part of their work: the best new map follows from the
second moments of what goes into it, by least squares. What goes first is what costs least after
such a repair (the optimal brain surgeon of Hassibi and Stork 1992 for whole heads and channels, as
in ZipLM, Kurtic et al. 2023, https://arxiv.org/abs/2302.04089).

Differs from ZipLM: channels go in small groups, and the repaired map is then trained on.

b batch, n token, k what goes into the map (heads times channels, or inner channels), w width
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Attention, Site
from formwright.arch.layer import FeedForward, Layer, Residual
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.base import Builder
from formwright.ops.feedforward.feedforward import FeedForwardOp
from formwright.supernet.slicing import Axis, axes_of

_RIDGE = 1e-3  # of the mean second moment, so that few tokens do not decide too much
_AT_ONCE = 1 / 64  # of the channels go in one step


@dataclass
class Moments:
    """Sums over tokens of what goes into a map.

    Args:
        count: Tokens.
        total: Their sum (k,).
        square: Sum of outer products (k, k).
    """

    count: float
    total: Tensor
    square: Tensor

    @classmethod
    def empty(cls, size: int) -> "Moments":
        """Of no token."""
        zeros = torch.zeros(size, dtype=torch.float64)
        return cls(0.0, zeros, torch.zeros(size, size, dtype=torch.float64))

    def add(self, x: Tensor, mask: Tensor | None) -> None:
        """Take in what went into the map for a batch (b, n, k)."""
        rows = x.reshape(-1, x.shape[-1]) if mask is None else x[mask]
        self.count += len(rows)
        self.total += rows.sum(dim=0).double().cpu()
        self.square += (rows.T @ rows).double().cpu()

    def matrix(self, centred: bool) -> Tensor:
        """Mean outer product, with a little on the diagonal; around the mean where asked."""
        found = self.square / max(1.0, self.count)
        if centred:
            mean = self.total / max(1.0, self.count)
            found = found - torch.outer(mean, mean)
        scale = found.diagonal().mean().clamp(min=1e-12)
        return found + _RIDGE * scale * torch.eye(len(found), dtype=found.dtype)


def last_map(layer: nn.Module) -> nn.Linear | None:
    """The map whose inputs are heads or inner channels, where a layer has one."""
    inner = getattr(layer, "inner", None)
    match inner:
        case AttentionOp():
            found = inner.out
        case FeedForwardOp():
            found = inner.down
        case _:
            found = None
    return found


@contextmanager
def listening(layer: nn.Module) -> Iterator[list[Tensor]]:
    """Collect what goes into the last map of a layer while inside."""
    found: list[Tensor] = []
    place = last_map(layer)
    if place is None:
        yield found
        return
    handle = place.register_forward_pre_hook(lambda module, given: found.append(given[0]))
    try:
        yield found
    finally:
        handle.remove()


def removal_order(weight: Tensor, moments: Tensor, size: int) -> list[int]:
    """Parts of a map's input, the most important first.

    Args:
        weight: Of the map (w, k).
        moments: Of its input (k, k).
        size: Channels of one part: those of a head, or 1.
    """
    parts = weight.shape[1] // size
    weight, inverse = weight.double().clone(), torch.linalg.inv(moments)
    left, gone = torch.arange(parts), []
    step = 1 if size > 1 else max(1, int(parts * _AT_ONCE))
    while len(left) > 1:
        worth = _worth(weight, inverse, size)
        chosen = worth.argsort(stable=True)[: min(step, len(left) - 1)]
        gone += [int(left[i]) for i in chosen]
        weight, inverse, stays = _without(weight, inverse, chosen, size)
        left = left[stays]
    return [*left.tolist(), *reversed(gone)]


def _worth(weight: Tensor, inverse: Tensor, size: int) -> Tensor:
    """What the output loses, after the repair, when one part goes."""
    if size == 1:
        return weight.square().sum(dim=0) / inverse.diagonal()
    found = []
    for part in range(weight.shape[1] // size):
        own = slice(part * size, (part + 1) * size)
        part_map = weight[:, own]
        found.append((part_map @ inv(inverse[own, own]) * part_map).sum())
    return torch.stack(found)


def inv(x: Tensor) -> Tensor:
    """The inverse of a symmetric matrix."""
    return torch.linalg.inv((x + x.T) / 2)


def _without(
    weight: Tensor, inverse: Tensor, parts: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Map and inverse after some parts went, and which parts stay."""
    stays = torch.ones(weight.shape[1] // size, dtype=torch.bool)
    stays[parts] = False
    rows = stays.repeat_interleave(size)
    solved = inv(inverse[~rows][:, ~rows]) @ inverse[~rows]  # (gone, k)
    weight = weight - weight[:, ~rows] @ solved
    inverse = inverse - inverse[:, ~rows] @ solved
    return weight[:, rows], inverse[rows][:, rows], stays


def refitted(
    weight: Tensor, bias: Tensor | None, moments: Moments, kept: Sequence[int]
) -> tuple[Tensor, Tensor | None]:
    """The best map from some of the inputs to what the whole map gives."""
    index = torch.as_tensor(list(kept))
    matrix, whole = moments.matrix(centred=bias is not None), weight.double()
    cross = whole @ matrix[:, index]  # (w, kept)
    found = torch.linalg.solve(matrix[index][:, index], cross.T).T
    if bias is None:
        return found.to(weight.dtype), None
    mean = moments.total / max(1.0, moments.count)
    shift = whole @ mean - found @ mean[index]
    return found.to(weight.dtype), (bias.double() + shift).to(bias.dtype)


# --- the weights of a slice ---------------------------------------------------------------


def sliced_state(
    large: Layer, small: Layer, site: Site, state: Mapping[str, Tensor], picks: Mapping[str, Any]
) -> dict[str, Tensor]:
    """The weights of a layer of the same form, cut out of a larger one's.

    Args:
        large: What the weights belong to.
        small: What is wanted.
        site: Where both stand.
        state: Weights of the large one.
        picks: Which heads, groups of keys and values, or inner channels stay, by that word; the
            first ones where nothing is said.
    """
    places = [_inner_axes(layer, site) for layer in (large, small)]
    found = {}
    for name, wanted in places[1].items():
        tensor = state[name]
        for axis, (of, left) in enumerate(zip(places[0][name], wanted, strict=True)):
            tensor = _taken(tensor, axis, of, left, picks)
        found[name] = tensor.clone()
    return found


def _taken(x: Tensor, axis: int, of: Axis, left: Axis, picks: Mapping[str, Any]) -> Tensor:
    if prod(n for _, n in of) == prod(n for _, n in left):  # pairs that are turned, or not
        return x
    x = x.unflatten(axis, [size for _, size in of])
    for place, ((word, many), (_, few)) in enumerate(zip(of, left, strict=True)):
        if few == many:
            continue
        if word == "groups" and word not in picks:  # keys and values are shared: their mean
            shape = (few, many // few)
            x = x.unflatten(axis + place, shape).mean(dim=axis + place + 1)
        else:
            index = torch.as_tensor(picks[word] if word in picks else range(few))
            x = x.index_select(axis + place, index.to(x.device))
    return x.flatten(axis, axis + len(of) - 1)


def _inner_axes(layer: Layer, site: Site) -> dict[str, tuple[Axis, ...]]:
    """What the axes of a layer's tensors are made of, by their name in the layer."""
    with torch.device("meta"):
        module = Builder().build(layer, site)
    found = {}
    for name, tensor in module.state_dict().items():
        inner = layer.inner if isinstance(layer, Residual) and name.startswith("inner.") else layer
        own = name.removeprefix("inner.") if inner is not layer else name
        known = (inner, site) if isinstance(inner, Attention | FeedForward) else None
        found[name] = axes_of(own, tensor, known)
    return found


def picks_for(layer: Layer, small: Layer, order: Sequence[int]) -> dict[str, list[int]]:
    """Which parts a slice has, from their order: heads come with their keys and values."""
    assert isinstance(layer, Residual)
    assert isinstance(small, Residual)
    match layer.inner, small.inner:
        case FeedForward(), FeedForward() as few:
            return {"inner": sorted(order[: few.inner])}
        case Attention() as many, Attention() as few if few.heads < many.heads:
            if many.groups == 1:
                return {"heads": sorted(order[: few.heads]), "groups": [0]}
            shared = many.heads // many.groups
            groups = sorted(order[: few.groups])
            heads = [g * shared + i for g in groups for i in range(shared)]
            return {"heads": heads, "groups": groups}
    return {}


def part_size(layer: Layer, site: Site) -> int:
    """Inputs of the last map that belong to one head, with those that share its keys; or 1."""
    inner = layer.inner if isinstance(layer, Residual) else None
    if isinstance(inner, Attention):
        shared = inner.heads // inner.groups if inner.groups > 1 else 1
        return inner.value_size(site.width) * shared
    return 1


def kept_inputs(layer: Layer, site: Site, picks: Mapping[str, Sequence[int]]) -> list[int]:
    """Which inputs of the last map stay."""
    if "inner" in picks:
        return list(picks["inner"])
    assert isinstance(layer, Residual)
    assert isinstance(layer.inner, Attention)
    size = layer.inner.value_size(site.width)
    return [head * size + i for head in picks["heads"] for i in range(size)]
