"""Gates on the slices of one operator: heads, channels, inner width, each with a number.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808: a
feed-forward is the sum of slices of its inner width, an attention that of its heads, its scores
that of slices of its query-key channels. A gate therefore multiplies a few rows or columns, and a
slice whose gate is 0 can be cut out. Scores stay divided by the root of the whole's key size.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from formwright.arch import Attention, FeedForward, Layer, Site
from formwright.arch.components import attention_part, feedforward_part
from formwright.errors import SpecError
from formwright.space.choice import Choice
from formwright.supernet.gates import Gate, GateHolder

_FIELDS: dict[type[Layer], tuple[str, ...]] = {
    FeedForward: ("inner",),
    Attention: ("heads", "key", "value"),
}


def sliceable(node: Layer, name: str) -> bool:
    """Whether the decision ``name`` of an operator is about slices that add up.

    Of attention only where key size and head number do not hang on each other, and each head has
    keys of its own.
    """
    fields = [key for key, value in _open(node).items() if value == name]
    if not fields or any(key not in _FIELDS.get(type(node), ()) for key in fields):
        return False
    if not isinstance(node, Attention):
        return True
    return node.key is not None and node.kv_heads is None and node.query_key == "separate"


def masks(template: Layer, holder: GateHolder, like: Tensor) -> dict[str, Tensor]:
    """Field of the operator to what each of its heads or channels is multiplied by."""
    found = {}
    for key, name in _open(template).items():
        if name in holder.slices:
            found[key] = _spread(holder.slices[name], holder.slots[name].values, like)
    return found


def weighed(
    node: Layer, weights: dict[str, Tensor], by_field: dict[str, Tensor], site: Site
) -> dict[str, Tensor]:
    """The weights of an operator with its slices multiplied."""
    if isinstance(node, FeedForward):
        return {"down.weight": weights["down.weight"] * by_field["inner"]}
    assert isinstance(node, Attention)
    found = {}
    if "key" in by_field:
        rows = by_field["key"].repeat(node.heads)
        found["query.weight"] = weights["query.weight"] * rows[:, None]
        if node.bias:
            found["query.bias"] = weights["query.bias"] * rows
    columns = weights["out.weight"]
    if "heads" in by_field:
        each = node.value_size(site.width)
        columns = columns * by_field["heads"].repeat_interleave(each)
    if "value" in by_field:
        columns = columns * by_field["value"].repeat(node.heads)
    return {**found, "out.weight": columns}


def kept_indices(mask: Tensor) -> list[int]:
    """The heads or channels that are not switched off."""
    return [int(index) for index in mask.detach().nonzero().flatten()]


def kept_node(template: Layer, largest: Layer, sized: Layer, holder: GateHolder) -> Layer:
    """The operator that is left where gates on slices are not 0; ``sized`` where there are none."""
    like = torch.zeros((), dtype=torch.float64)
    by_field = masks(template, holder, like)
    if not by_field:
        return sized
    kept = {key: len(kept_indices(mask)) for key, mask in by_field.items()}
    if 0 in (kept.get("inner"), kept.get("heads"), kept.get("value")):
        raise SpecError(
            f"All slices of {largest.NAME} are switched off; put the layer behind a maybe, so that "
            "it can be left out as a whole."
        )
    if isinstance(largest, FeedForward):
        return feedforward_part(largest, kept["inner"], out_bias=True)
    assert isinstance(largest, Attention)
    assert largest.key is not None  # or it would have no slices
    return attention_part(
        largest,
        largest.key * largest.heads,
        groups=kept.get("heads"),
        key=kept.get("key"),
        value=kept.get("value"),
        out_bias=True,
    )


def _open(node: Layer) -> dict[str, str]:
    """Fields of an operator that hold a choice, and its name."""
    values: dict[str, Any] = node.values()
    return {key: value.name for key, value in values.items() if isinstance(value, Choice)}


def _spread(row: tuple[Gate, ...], values: tuple[int | float, ...], like: Tensor) -> Tensor:
    """The gate of each channel: the first slice is the smallest size, others what a step adds."""
    gates = torch.stack([torch.as_tensor(gate, device=like.device).to(like.dtype) for gate in row])
    edges = [0, *(int(value) for value in values)]
    sizes = [high - low for low, high in pairwise(edges)]
    return gates.repeat_interleave(torch.tensor(sizes, device=like.device))
