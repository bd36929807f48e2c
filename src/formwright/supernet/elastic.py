"""Operators of open size: one holds the largest weights, smaller ones are slices of them.

For given sizes the small operator is made once without weights (on torch's meta device) and run
on views of the large one's.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from formwright.arch.attention import Attention
from formwright.arch.layer import Layer
from formwright.arch.site import Site
from formwright.errors import SpecError
from formwright.ops.base import Builder, Context, Operator
from formwright.space.compile import compiled
from formwright.space.part import Decisions
from formwright.supernet.gates import GateHolder
from formwright.supernet.masks import masks, weighed
from formwright.supernet.node import Elastic
from formwright.supernet.slicing import Slices, remember


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
        self._small: dict[Layer, tuple[nn.Module, Slices]] = {}
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

    def running(self) -> nn.Module:
        """The module that is run at the sizes of the moment."""
        node = self.node(self.holder.sizes)
        return self.whole if self.sliced or node == self.large else self._made(node)[0]

    def slices(self) -> dict[str, Tensor]:
        """The weights of the operator at the sizes of the moment, as slices of the large one's."""
        return self._made(self.node(self.holder.sizes))[1](self.whole)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        node = self.node(self.holder.sizes)
        if ctx.past is not None and not self._same_memory:
            ctx.past.claim(slots_of(self.whole), str(node))
        if self.sliced:
            return functional_call(self.whole, self.weighed(), (x, ctx))
        if node == self.large:
            return self.whole(x, ctx)
        small, slices = self._made(node)
        small.train(self.training)
        return functional_call(small, slices(self.whole), (x, ctx))

    def _made(self, node: Layer) -> tuple[nn.Module, Slices]:
        if node not in self._small:
            node.out_width(self.site)  # says what does not fit, if anything
            with torch.random.fork_rng(devices=[]), torch.device("meta"):
                small = self._blank.build(node, self.site)
            for name, module in small.named_modules():
                if isinstance(getattr(module, "slot", None), int):  # one memory for all sizes
                    module.slot = self.whole.get_submodule(name).slot
            remember(small, node, self.site)
            self._small[node] = small, Slices(self.whole, small)
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


def slots_of(module: nn.Module) -> list[int]:
    """Where a module and those below it remember what they read."""
    found = (getattr(m, "slot", None) for m in module.modules())
    return [slot for slot in found if isinstance(slot, int)]
