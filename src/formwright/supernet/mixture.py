"""Open places as torch modules: sums of options under the gates of the moment.

b batch, n token, w width
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from formwright.arch.node import Node
from formwright.arch.site import Site
from formwright.errors import SpecError
from formwright.ops.base import Builder, Context, Operator
from formwright.ops.connector import ConnectedOp
from formwright.ops.container import IdentityOp, ResidualOp, StackOp, filled
from formwright.ops.norm.layernorm import LayerNormOp, gated_layer_norm
from formwright.supernet.elastic import ElasticOp, slots_of
from formwright.supernet.fuse import Fusion
from formwright.supernet.gates import Gate, GateHolder, is_off, scaled, total
from formwright.supernet.node import (
    Depth,
    Elastic,
    ElasticNorm,
    Gated,
    Mixture,
    NormMixture,
    OpenConnected,
    OpenNorm,
    Presence,
    Row,
)
from formwright.supernet.plain import gate_of
from formwright.supernet.slicing import remember


@dataclass
class SupernetBuilder(Builder):
    """Builds plain layers as ever, and open places with a look at the gates."""

    holder: GateHolder | None = None

    def build(self, node: Node, site: Site) -> Any:
        """The module of a node at a place."""
        place = _PLACES.get(type(node))
        assert self.holder is not None
        module = (
            super().build(node, site) if place is None else place(node, site, self, self.holder)
        )
        remember(module, node, site)
        return module


class _Options(Operator):
    """What all mixtures do: run an option, or leave it out safely."""

    def __init__(self, holder: GateHolder) -> None:
        super().__init__()
        self.holder = holder

    def run(self, option: nn.Module, x: Tensor, ctx: Context) -> Tensor:
        """One option; where so wished, it is computed again for its gradient."""
        if self.holder.memory is not None:
            return self.holder.memory(option, x, ctx)
        if not (self.holder.checkpoint and self.training) or ctx.past is not None:
            return option(x, ctx)
        # A table made inside would be missing when the option is run again: each run makes its own.
        # So would weights that are lent for this pass only.
        whole = _Together([option] if ctx.position is None else [option, ctx.position])
        weights = {**dict(whole.named_parameters()), **dict(whole.named_buffers())}

        gates = self.holder.current

        def again(y: Tensor) -> Tensor:
            with self.holder.under(gates):  # in the backward pass others may hold
                return functional_call(whole, weights, (y, replace(ctx, tables={})))

        return checkpoint(again, x, use_reentrant=False)

    def is_loose(self, name: str) -> bool:
        """Whether the gates of a decision need not add up to 1."""
        return name in self.holder.current.loose

    def leave_out(self, option: nn.Module, ctx: Context) -> None:
        """An option that misses a piece of text must not take older text for the last piece."""
        if ctx.past is not None:
            ctx.past.forget(slots_of(option))


class _Together(nn.ModuleList):
    """An option and the positions that it looks at, called as the option."""

    def forward(self, x: Tensor, ctx: Context) -> Tensor:
        found: Tensor = self[0](x, ctx)
        return found


class RowOp(StackOp):
    """Layers of an option, one after the other; none at all pass the stream on."""


def _passes(option: nn.Module) -> bool:
    """Whether an option adds to the stream and leaves it as it is."""
    if isinstance(option, StackOp):
        return all(map(_passes, option.layers))
    return isinstance(option, IdentityOp) or (
        isinstance(option, ResidualOp) and (option.norm is None or option.place != "post")
    )


class MixtureOp(_Options):
    """The sum of the options, each times its gate."""

    def __init__(self, node: Mixture, site: Site, builder: Builder, holder: GateHolder) -> None:
        super().__init__(holder)
        self.name, self.width = node.name, node.out_width(site)
        self.options = nn.ModuleList(builder.build(option, site) for option in node.options)
        self.passes = all(map(_passes, self.options))

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        gates = self.holder.row(self.name)
        found = x * (1 - sum(gates)) if self.passes and self.is_loose(self.name) else None
        for gate, option in zip(gates, self.options, strict=True):
            if is_off(gate):
                self.leave_out(option, ctx)
                continue
            part = scaled(self.run(option, x, ctx), gate)
            found = part if found is None else found + part
        return x.new_zeros(*x.shape[:-1], self.width) if found is None else found


class PresenceOp(_Options):
    """Gate times the layer, and what is left passes by."""

    def __init__(self, node: Presence, site: Site, builder: Builder, holder: GateHolder) -> None:
        super().__init__(holder)
        self.name, self.index = node.name, node.index
        self.layer = builder.build(node.layer, site)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        gate = self.holder.row(self.name)[self.index]
        if is_off(gate):
            self.leave_out(self.layer, ctx)
            return x
        found = scaled(self.run(self.layer, x, ctx), gate)
        return found if isinstance(gate, float) and gate == 1.0 else found + (1 - gate) * x


class DepthOp(_Options):
    """The streams after the units of each depth, each times the gate of that depth."""

    def __init__(self, node: Depth, site: Site, builder: Builder, holder: GateHolder) -> None:
        super().__init__(holder)
        self.name, self.kept = node.name, node.kept
        self.units = nn.ModuleList(builder.build(unit, site) for unit in node.units)

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        pairs = zip(self.kept, self.holder.row(self.name), strict=True)
        on = [(kept, gate) for kept, gate in pairs if not is_off(gate)]
        self._leave_out(on, ctx)
        loose = self.is_loose(self.name) and all(map(_passes, self.units))
        found = x * (1 - sum(gate for _, gate in on)) if loose else None
        streams: dict[tuple[int, ...], Tensor] = {(): x}  # after some units one after the other
        for kept, gate in on:
            for end in range(1, len(kept) + 1):
                if kept[:end] not in streams:
                    unit, before = self.units[kept[end - 1]], streams[kept[: end - 1]]
                    streams[kept[:end]] = self.run(unit, before, ctx)
            part = scaled(streams[kept], gate)
            found = part if found is None else found + part
        return x * 0.0 if found is None else found

    def _leave_out(self, on: list[tuple[tuple[int, ...], Gate]], ctx: Context) -> None:
        """Units that do not run forget; one that runs twice could not tell its two texts apart."""
        if ctx.past is None:
            return
        runs = {kept[:end] for kept, _ in on for end in range(1, len(kept) + 1)}
        for number, unit in enumerate(self.units):
            times = sum(run[-1] == number for run in runs)
            if times == 0:
                self.leave_out(unit, ctx)
            elif times > 1:
                raise SpecError(
                    f"Several depths of {self.name!r} are on at once and copy {number} stands "
                    "behind different ones in them; with memory use one depth at a time."
                )


class GatedOp(_Options):
    """Layers side by side, each times its gate; a mean is divided by the sum of the gates."""

    def __init__(self, node: Gated, site: Site, builder: Builder, holder: GateHolder) -> None:
        super().__init__(holder)
        self.node, self.width = node, node.out_width(site)
        self.branches = nn.ModuleList(builder.build(b.layer, site) for b in node.branches)

    def gates(self) -> list[Gate]:
        """The gate of each branch."""
        return [gate_of(branch.terms, self.holder) for branch in self.node.branches]

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n out"]:
        gates = self.gates()
        found: Tensor | None = None
        for gate, branch in zip(gates, self.branches, strict=True):
            if is_off(gate):
                self.leave_out(branch, ctx)
                continue
            part = scaled(filled(self.run(branch, x, ctx), self.width, 0.0), gate)
            found = part if found is None else found + part
        if found is None:
            return x.new_zeros(*x.shape[:-1], self.width)
        return found / self.divisor(gates) if self.node.join == "mean" else found

    def divisor(self, gates: list[Gate]) -> Gate:
        """The sum of the gates, or what a policy gives in place of some of them."""
        given: dict[str, float] = {}
        counted: list[Gate] = []
        for gate, branch in zip(gates, self.node.branches, strict=True):
            names = [term.name for term in branch.terms if term.name in self.holder.totals]
            if names:
                given[names[0]] = self.holder.totals[names[0]]
            else:
                counted.append(gate)
        return total((*counted, *given.values()))


class OpenConnectedOp(ConnectedOp):
    """Connector units whose weights come from the gates."""

    def __init__(
        self, node: OpenConnected, site: Site, builder: Builder, holder: GateHolder
    ) -> None:
        super().__init__(node.fixed, site, builder)
        self.names, self.holder = node.names, holder
        self.fusion = Fusion(builder.dropout, builder.attention_dropout)

    def beside(
        self, parts: Sequence[nn.Module], x: Float[Tensor, "b n w"], ctx: Context
    ) -> Float[Tensor, "b n w"]:
        """Parts that are on, at once where they are of one kind; none give zeros."""
        found: list[tuple[nn.Module, Gate]] = []
        for part in parts:
            if not isinstance(part, GatedOp) or len(part.branches) != 1 or part.node.join != "sum":
                return super().beside(parts, x, ctx)
            (gate,) = part.gates()
            if is_off(gate):
                part.leave_out(part.branches[0], ctx)
            else:
                found.append((part.branches[0], gate))
        if not found:
            return torch.zeros_like(x)
        fused = None if self.holder.checkpoint else self.fusion(found, x, ctx)
        return super().beside(parts, x, ctx) if fused is None else fused

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        weights = [
            self.holder.number(name) if name else weight
            for name, weight in zip(self.names, self.weights, strict=True)
        ]
        return self.run(x, ctx, weights)


class OpenNormOp(LayerNormOp):
    """A LayerNorm whose share of the mean comes from the gates."""

    def __init__(self, node: OpenNorm, site: Site, builder: Builder, holder: GateHolder) -> None:
        super().__init__(node.norm, site, builder)
        self.name, self.holder = node.name, holder

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        share = self.holder.number(self.name)
        if isinstance(share, float):
            self.mean = share
            return super().forward(x, ctx)
        return gated_layer_norm(x, share, self.weight, self.bias, self.eps)


def _row(node: Row, site: Site, builder: Builder, holder: GateHolder) -> RowOp:
    return RowOp(node, site, builder)


_PLACES: dict[type[Node], Any] = {
    Row: _row,
    Mixture: MixtureOp,
    NormMixture: MixtureOp,
    Presence: PresenceOp,
    Depth: DepthOp,
    Gated: GatedOp,
    Elastic: ElasticOp,
    ElasticNorm: ElasticOp,
    OpenConnected: OpenConnectedOp,
    OpenNorm: OpenNormOp,
}
