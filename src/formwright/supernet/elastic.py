"""Operators of open size: one holds the largest weights, smaller ones are slices of them.

For given sizes the small operator is made once without weights (on torch's meta device) and run
on views of the large one's. The first rows and columns are taken; where they lie in blocks, as
those of heads do, the first of each block.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from formwright.arch.attention import Attention
from formwright.arch.layer import GLU, Layer
from formwright.arch.site import Site
from formwright.errors import SpecError
from formwright.ops.base import Builder, Context, Operator
from formwright.space.compile import compiled
from formwright.space.part import Decisions
from formwright.supernet.gates import GateHolder
from formwright.supernet.masks import masks, weighed
from formwright.supernet.node import Elastic

# From (tensor's name, the large tensor, large node, small node, place) to the slice, or None
# where the first rows and columns are right.
Rule = Callable[[str, Tensor, Any, Any, Site], Tensor | None]

_RULES: dict[type[Layer], Rule] = {}


def slicing(node_class: type[Layer]) -> Callable[[Rule], Rule]:
    """Register how tensors of a layer are sliced whose rows lie in blocks."""

    def register(rule: Rule) -> Rule:
        _RULES[node_class] = rule
        return rule

    return register


class ElasticOp(Operator):
    """The largest operator, run at whatever size the decisions ask for."""

    def __init__(self, node: Elastic, site: Site, builder: Builder, holder: GateHolder) -> None:
        super().__init__()
        self.names, self.site, self.holder = node.names, site, holder
        self.template: Layer = node.template.layer
        self.part = compiled(self.template)
        self.large = _holder(node, site)
        _check_positions(self.large, node, site)
        self.whole = builder.build(self.large, site)
        self._blank = Builder(builder.dropout, builder.attention_dropout)
        self._small: dict[Layer, nn.Module] = {}
        # Transformer-XL remembers the stream itself; keys of other heads would be of no use.
        plain = not isinstance(self.large, Attention) or not self.large.conv
        self._same_memory = plain and bool(getattr(self.whole, "remembers_inputs", False))

    def node(self, sizes: Decisions) -> Layer:
        """The operator these sizes stand for."""
        found: Layer = self.part.build(sizes)
        return found

    @property
    def sliced(self) -> bool:
        """Whether its slices are weighed rather than cut."""
        return any(name in self.holder.slices for name in self.names)

    def masks(self) -> dict[str, Tensor]:
        """Field of the operator to what each of its heads or channels is multiplied by."""
        return masks(self.template, self.holder, next(self.whole.parameters()))

    def weighed(self) -> dict[str, Tensor]:
        """The weights of the large operator under gates on its slices."""
        return weighed(self.large, dict(self.whole.named_parameters()), self.masks(), self.site)

    def slices(self, node: Layer) -> dict[str, Tensor]:
        """The weights of a small operator as slices of the large one's."""
        whole = {**dict(self.whole.named_parameters()), **dict(self.whole.named_buffers())}
        return {
            name: _slice(name, whole[name], small.shape, (self.large, node, self.site))
            for name, small in _tensors(self._made(node))
        }

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        node = self.node(self.holder.sizes)
        if ctx.past is not None and not self._same_memory:
            ctx.past.claim(slots_of(self.whole), str(node))
        if self.sliced:
            return functional_call(self.whole, self.weighed(), (x, ctx))
        if node == self.large:
            return self.whole(x, ctx)
        small = self._made(node)
        small.train(self.training)
        return functional_call(small, self.slices(node), (x, ctx))

    def _made(self, node: Layer) -> nn.Module:
        if node not in self._small:
            node.out_width(self.site)  # says what does not fit, if anything
            with torch.device("meta"):
                small = self._blank.build(node, self.site)
            for name, module in small.named_modules():
                if isinstance(getattr(module, "slot", None), int):  # one memory for all sizes
                    module.slot = self.whole.get_submodule(name).slot
            self._small[node] = small
        return self._small[node]


def _holder(node: Elastic, site: Site) -> Layer:
    """The operator that every size can be sliced from."""
    large, small = node.largest, node.smallest
    if not isinstance(large, Attention) or not isinstance(small, Attention):
        return large
    width = site.width  # fewer heads may have larger keys: hold the most of each
    return large.replace(
        key=max(large.key_size(width), small.key_size(width)),
        value=max(large.value_size(width), small.value_size(width)),
    )


def _check_positions(large: Layer, node: Elastic, site: Site) -> None:
    small, position = node.smallest, site.position
    if not isinstance(large, Attention) or not isinstance(small, Attention) or position is None:
        return
    shapes = {(a.heads, a.key_size(site.width)) for a in (large, small)}
    if position.same_heads and large.sees(position) and len(shapes) > 1:
        raise SpecError(
            f"{position.NAME} positions are shared by all layers, so heads and key size "
            f"({', '.join(node.names)}) cannot be open; do not share the positions."
        )


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def slots_of(module: nn.Module) -> list[int]:
    """Where a module and those below it remember what they read."""
    found = (getattr(m, "slot", None) for m in module.modules())
    return [slot for slot in found if isinstance(slot, int)]


def _slice(name: str, large: Tensor, shape: torch.Size, what: tuple[Layer, Layer, Site]) -> Tensor:
    whole, small, site = what
    rule = _RULES.get(type(small))
    found = rule(name, large, whole, small, site) if rule is not None else None
    if found is None:
        found = large[tuple(slice(0, size) for size in shape)]
    if found.shape != shape:
        raise SpecError(
            f"{small.NAME} cannot be sliced: {name} should be {tuple(shape)} but the largest has "
            f"{tuple(large.shape)}. Give the layer a rule with @slicing, or fix its size."
        )
    return found


def blocks(x: Tensor, whole: tuple[int, int], kept: tuple[int, int], axis: int = 0) -> Tensor:
    """The first channels of the first blocks along an axis: (blocks, channels of each)."""
    if whole == kept:
        return x
    if whole[1] == kept[1]:
        return x.narrow(axis, 0, kept[0] * kept[1])
    split = x.unflatten(axis, whole).narrow(axis, 0, kept[0]).narrow(axis + 1, 0, kept[1])
    return split.flatten(axis, axis + 1)


@slicing(Attention)
def _attention(
    name: str, large: Tensor, whole: Attention, small: Attention, site: Site
) -> Tensor | None:
    width = site.width
    keys = (whole.key_size(width), small.key_size(width))
    values = (whole.value_size(width), small.value_size(width))
    heads, groups = (whole.heads, small.heads), (whole.groups, small.groups)

    def cut(x: Tensor, of: tuple[int, int], each: tuple[int, int], axis: int = 0) -> Tensor:
        return blocks(x, (of[0], each[0]), (of[1], each[1]), axis)

    match name.split(".", maxsplit=1)[0]:
        case "query" | "query_conv":
            return cut(large, heads, keys)
        case "key" | "key_conv":
            return cut(large, groups, keys)
        case "value" | "value_conv":
            return cut(large, groups, values)
        case "solo":
            rows = cut(large, heads, keys)
            return rows if rows.dim() == 1 else cut(rows, heads, keys, axis=1)
        case "out":
            return large if large.dim() == 1 else cut(large, heads, values, axis=1)
    return cut(large, heads, keys) if name == "position.project.weight" else None


@slicing(GLU)
def _glu(name: str, large: Tensor, whole: GLU, small: GLU, site: Site) -> Tensor:
    return blocks(large, (2, whole.out_width(site)), (2, small.out_width(site)))


def sliced_state(operator: ElasticOp, sizes: Mapping[str, Any]) -> dict[str, Tensor]:
    """Weights and buffers of the operator these sizes stand for, copied."""
    node = operator.node(sizes)
    return {name: x.detach().clone() for name, x in operator.slices(node).items()}
