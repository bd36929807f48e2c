"""Weights of a whole network cut into components, and those of components put together again.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808. Cutting
and merging change nothing but what is computed at once; a gate is multiplied into the matrix
behind it.
Differs from the paper: a connection or a mean that the deterministic search left between 0 and 1
is rounded, and the network trained on for a little, in place of keeping a scaled residual.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch.components import shares
from formwright.errors import InputError
from formwright.model import Model, build
from formwright.space.components import Cut, Groups, Kept, grouped, groupings
from formwright.space.part import Decisions
from formwright.supernet.elastic import ElasticOp
from formwright.supernet.extract import kept_state
from formwright.supernet.gates import Gates, plain_number
from formwright.supernet.supernet import Supernet

State = dict[str, Tensor]


def hardened(gates: Gates, cut: Cut) -> Gates:
    """The same with connections and means rounded; heads without values are gone."""
    rows: dict[str, tuple[float, ...]] = {n: _plain(gates, n) for n in gates.weights}
    slices = {n: _plain(gates, n) for n in gates.slices}
    for name, row in rows.items():
        if name.startswith(("close", "mean")):
            rows[name] = (0.0, 1.0) if row[1] >= 0.5 else (1.0, 0.0)
        else:
            rows[name] = (0.0, row[1])
    for i in range(cut.layers):
        if not any(slices[f"value{i}"]):
            rows |= {f"head{i}.{part}": (1.0, 0.0) for part in range(cut.head_parts)}
    return Gates(rows, slices=slices)


def kept_parts(gates: Gates, cut: Cut) -> list[Kept]:
    """What hard gates leave of each layer."""
    found = []
    for i in range(cut.layers):
        key = _channels(gates, f"key{i}", shares(cut.channels, cut.key_parts, "channels"))
        value = _channels(gates, f"value{i}", shares(cut.channels, cut.value_parts, "channels"))
        heads = _groups(gates, f"head{i}", cut.head_parts)
        inner = _groups(gates, f"slice{i}", cut.inner_parts)
        first, last = (plain_number(gates.row(f"mean{i}{which}")[1]) for which in "af")
        groups = tuple(map(len, heads)), tuple(map(len, inner))
        found.append(Kept(groups[0], key, value, groups[1], (first, last)))
    return found


def gates_of(cut: Cut, decisions: Decisions) -> Gates:
    """The hard gates that leave a member: of parts that are alike, the first ones stay."""
    rows: dict[str, tuple[float, ...]] = {}
    slices: dict[str, tuple[float, ...]] = {}
    chosen: Any = decisions
    for i in range(cut.layers):
        for kind, name, parts in (
            ("heads", "head", cut.head_parts),
            ("inner", "slice", cut.inner_parts),
        ):
            groups = groupings(parts)[chosen[f"{kind}{i}"]]
            ends = {sum(groups[: n + 1]) - 1 for n in range(len(groups) - 1)}
            for part in range(parts):
                rows[f"{name}{i}.{part}"] = (0.0, float(part < sum(groups)))
                if part < parts - 1:
                    rows[f"close_{name}{i}.{part}"] = _one_of(part in ends)
        compares = chosen.get(f"compare{i}", 1)
        for name, parts in (("key", cut.key_parts), ("value", cut.value_parts)):
            kept = chosen.get(f"{name}{i}", cut.channels)
            kept = kept if name == "value" or compares else 0
            sizes = shares(cut.channels, parts, "channels")
            ends_at = [sum(sizes[: n + 1]) for n in range(parts)]
            slices[f"{name}{i}"] = tuple(float(end <= kept) for end in ends_at)
        for which in "af":
            rows[f"mean{i}{which}"] = _one_of(chosen[f"mean{i}{which}"] == 1)
    return Gates(rows, slices=slices)


def _one_of(second: bool) -> tuple[float, float]:
    return (0.0, 1.0) if second else (1.0, 0.0)


@torch.no_grad()
def cut_into(supernet: Supernet, whole: Model, cut: Cut) -> None:
    """Give the components the weights that they have in a trained whole."""
    expected = cut.baseline(whole.frame)
    if whole.arch != expected:
        raise InputError(
            f"The model to start from is no BERT of {cut.layers} layers of width {cut.width} with "
            f"{cut.heads} heads and inner width {cut.inner}; give one that is."
        )
    own = supernet.state_dict()
    for name, tensor in whole.state_dict().items():
        if not name.startswith("stacks.") and own[name].shape == tensor.shape:
            own[name].copy_(tensor)
    layers: Any = whole.stacks["layers"].layers
    places = _places(supernet)
    for i in range(cut.layers):
        heads, norm, parts, last = places[4 * i : 4 * i + 4]
        attention, feedforward = layers[2 * i], layers[2 * i + 1]
        for number, part in enumerate(_behind(heads)):
            rows = cut.heads_each * cut.channels
            _cut_attention(part.whole, attention.inner, slice(number * rows, (number + 1) * rows))
        for number, part in enumerate(_behind(parts)):
            rows = cut.inner_each
            _cut_feedforward(part, feedforward.inner, slice(number * rows, (number + 1) * rows))
        norm.load_state_dict(attention.norm.state_dict())
        last.load_state_dict(feedforward.norm.state_dict())


@torch.no_grad()
def merged(supernet: Supernet, gates: Gates, cut: Cut) -> Model:
    """The fast network that a supernet computes under hard gates, with its weights."""
    space = cut.members(supernet.frame)
    arch = space.resolve(cut.member(kept_parts(gates, cut))).check()
    weight = next(supernet.parameters())
    dropout, attention_dropout = supernet._dropout
    model = build(
        arch,
        dropout=dropout,
        attention_dropout=attention_dropout,
        device=weight.device,
        dtype=weight.dtype,
    )
    own = model.state_dict()
    for name, tensor in supernet.state_dict().items():
        if not name.startswith("stacks."):
            own[name].copy_(tensor)
    targets: Any = iter(_places(model))
    places = _places(supernet)
    with supernet.gated(gates):
        for i in range(cut.layers):
            heads, norm, parts, last = places[4 * i : 4 * i + 4]
            for number, group in enumerate(_groups(gates, f"head{i}", cut.head_parts)):
                states = [_scaled(kept_state(_behind(heads)[p.number]), "out", p) for p in group]
                next(targets).inner.load_state_dict(_joined(states, "out", bias=number == 0))
            next(targets).load_state_dict(norm.state_dict())
            for number, group in enumerate(_groups(gates, f"slice{i}", cut.inner_parts)):
                states = [_scaled(_behind(parts)[p.number].state_dict(), "down", p) for p in group]
                next(targets).inner.load_state_dict(_joined(states, "down", bias=number == 0))
            next(targets).load_state_dict(last.state_dict())
    return model


# --- places of a supernet -----------------------------------------------------------------------


def _places(model: Model) -> list[Any]:
    """The layers; of a supernet heads, norm, slices, norm of each layer in turn."""
    layers: Any = model.stacks["layers"].layers
    return list(layers)


def _behind(chain: Any) -> list[Any]:
    """The parts of a chain of connectors: attentions of open size, or feed-forwards."""
    return [gated.branches[0] for gated in chain.layers]


def weights_of_part(supernet: Supernet, name: str) -> list[nn.Parameter]:
    """The weights of a component by its decision: ``head0.1``, ``slice2.7``."""
    kind, _, number = name.partition(".")
    layer = int(kind.removeprefix("head").removeprefix("slice"))
    chain = _places(supernet)[4 * layer + (0 if kind.startswith("head") else 2)]
    part = _behind(chain)[int(number)]
    return list((part.whole if isinstance(part, ElasticOp) else part).parameters())


@dataclass(frozen=True)
class _Part:
    number: int
    gate: float


def _groups(gates: Gates, name: str, parts: int) -> list[list[_Part]]:
    """Parts that stand side by side, group after group."""
    on = [plain_number(gates.row(f"{name}.{part}")[1]) for part in range(parts)]
    closes = [plain_number(gates.row(f"close_{name}.{p}")[1]) == 1 for p in range(parts - 1)]
    sizes: Groups = grouped([gate != 0 for gate in on], closes)
    kept = iter([_Part(number, gate) for number, gate in enumerate(on) if gate != 0])
    return [[next(kept) for _ in range(size)] for size in sizes]


def _scaled(state: State, last: str, part: _Part) -> State:
    """A part's weights with its gate multiplied in; the first part has the bias of the last map."""
    found = dict(state)
    for name in (f"{last}.weight", f"{last}.bias"):
        if name in found:
            found[name] = found[name] * part.gate
    return found


def _joined(states: Sequence[State], last: str, *, bias: bool) -> State:
    """Parts side by side as one operator: rows below each other, the last map's columns beside.

    The bias of the last map was in the first part; where that is gone, it is zero.
    """
    found: State = {}
    for name in states[0]:
        if name != f"{last}.bias":
            axis = 1 if name == f"{last}.weight" else 0
            found[name] = torch.cat([state[name] for state in states], dim=axis)
    if bias:
        weight = found[f"{last}.weight"]
        found[f"{last}.bias"] = states[0].get(f"{last}.bias", weight.new_zeros(len(weight)))
    return found


def _cut_attention(part: Any, whole: Any, rows: slice) -> None:
    for name in ("query", "key", "value"):
        own, all_of_it = getattr(part, name), getattr(whole, name)
        own.weight.copy_(all_of_it.weight[rows])
        own.bias.copy_(all_of_it.bias[rows])
    _cut_last(part.out, whole.out, rows)


def _cut_feedforward(part: Any, whole: Any, rows: slice) -> None:
    part.up.weight.copy_(whole.up.weight[rows])
    part.up.bias.copy_(whole.up.bias[rows])
    _cut_last(part.down, whole.down, rows)


def _cut_last(part: nn.Linear, whole: nn.Linear, columns: slice) -> None:
    part.weight.copy_(whole.weight[:, columns])
    if part.bias is not None:
        part.bias.copy_(whole.bias)


def _plain(gates: Gates, name: str) -> tuple[float, ...]:
    return tuple(plain_number(gate) for gate in gates.row(name))


def _channels(gates: Gates, name: str, sizes: Sequence[int]) -> int:
    """Channels in the slices that are on."""
    row = _plain(gates, name)
    return sum(size for size, gate in zip(sizes, row, strict=True) if gate != 0)
