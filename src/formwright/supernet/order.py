"""The order of slices: smaller members take the first heads and channels, so the best come first.

What is important is measured elsewhere. Here heads, inner channels or the channels of the stream
are only put into another order, in every tensor that knows them, so that the largest member
computes what it did.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from formwright.arch.attention import Attention
from formwright.arch.conv import DepthwiseConv
from formwright.arch.layer import FeedForward, Layer, Norm
from formwright.arch.mechanism import Softmax
from formwright.arch.position import Alibi, Sinusoid
from formwright.arch.site import Site
from formwright.errors import InputError, SpecError
from formwright.model import Model
from formwright.supernet.elastic import ElasticOp
from formwright.supernet.slicing import Axis, Owned, origin, owned


@torch.no_grad()
def reorder(supernet: Model, order: Sequence[int], operator: str | None = None) -> None:
    """Put the parts of an operator, or the channels of the stream, into another order.

    Args:
        supernet: Whose weights are moved; what an optimiser remembers of them is not.
        order: What stood at ``order[i]`` comes to stand at i; all of them, each once.
        operator: The path of an attention (its heads) or a feed-forward (its inner channels), such
            as ``stacks.layers.layers.0.inner``; the stream when not given.
    """
    if operator is None:
        _check_stream(supernet)
        width = supernet.arch.backbone.width
        projected = supernet.arch.backbone.embedding.is_projected(width)
        words = {"stream"} if projected else {"stream", "size"}
        _move(owned(supernet), words, order, width)
        return
    module = supernet.get_submodule(operator)
    module = module.whole if isinstance(module, ElasticOp) else module
    match origin(module):
        case (FeedForward() as node, _):
            _move(owned(module), {"inner"}, order, node.inner)
        case (Attention() as node, site) if _heads_are_alike(node, site):
            _move(owned(module), {"heads", "groups"}, order, node.heads)
        case _:
            raise SpecError(
                f"{operator} has no parts whose order is free; give a feed-forward, or an "
                "attention by softmax whose heads share neither keys nor positions."
            )


def _heads_are_alike(node: Attention, site: Site) -> bool:
    position = site.position
    told = position is not None and (isinstance(position, Alibi) or position.same_heads)
    seen = position is not None and node.sees(position)
    return node.groups == node.heads and isinstance(node.kind, Softmax) and not (told and seen)


def _check_stream(supernet: Model) -> None:
    """Refuse what fixes the order of the stream's channels."""
    backbone = supernet.arch.backbone
    if isinstance(backbone.position, Sinusoid):
        raise SpecError("sinusoid positions fix the order of the stream's channels.")
    for _, _, at, _ in owned(supernet):
        if at is None or not isinstance(at[0], Layer):
            continue
        node, site = at
        follows = isinstance(node, FeedForward | Norm | DepthwiseConv) or (
            isinstance(node, Attention) and node.project_out and node.out is None
        )
        if not follows or (site.width != backbone.width and not isinstance(node, Norm)):
            raise SpecError(f"{node.NAME} fixes the order of the stream's channels.")


def _move(tensors: Iterable[Owned], words: set[str], order: Sequence[int], size: int) -> None:
    if sorted(order) != list(range(size)):
        raise InputError(f"An order of {size} parts names each number below {size} once.")
    for found in tensors:
        for axis, factors in enumerate(found.axes):
            for place, (word, many) in enumerate(factors):
                if word in words and many == size:  # a norm inside the entrance may be narrower
                    found.tensor.copy_(_moved(found.tensor, axis, factors, place, order))


def _moved(x: Tensor, axis: int, factors: Axis, place: int, order: Sequence[int]) -> Tensor:
    split = x.unflatten(axis, [size for _, size in factors])
    chosen = split.index_select(axis + place, torch.as_tensor(list(order), device=x.device))
    return chosen.flatten(axis, axis + len(factors) - 1)
