"""The plain architecture that a supernet computes under hard gates, also fractional weights."""

from collections.abc import Sequence
from typing import Any

from formwright.arch import Architecture, Layer, Parallel, Residual, Stack
from formwright.arch.layer import Identity
from formwright.errors import SpecError
from formwright.space.compile import compiled
from formwright.supernet.gates import Gate, GateHolder, is_off, plain_number, total
from formwright.supernet.masks import kept_node
from formwright.supernet.node import (
    Depth,
    Elastic,
    Gated,
    Mixture,
    OpenConnected,
    OpenNorm,
    Presence,
    Row,
    Term,
)


def plain_architecture(arch: Architecture, holder: GateHolder) -> Architecture:
    """The supernet's architecture without what the gates switch off."""
    return Architecture(
        Stack(plain_layers(arch.layers, holder)),
        arch.backbone.replace(norm=_one(arch.backbone.norm, holder)),
        Stack(plain_layers(arch.encoder, holder)) if arch.encoder is not None else None,
        arch.frame,
    )


def plain_layers(node: Layer, holder: GateHolder) -> tuple[Layer, ...]:
    """What a layer of the supernet stands for in the list it is part of; a stack, its layers."""
    layers = node.layers if isinstance(node, Stack) else (node,)
    return tuple(found for layer in layers for found in _list(layer, holder))


def _list(node: Layer, holder: GateHolder) -> tuple[Layer, ...]:
    match node:
        case Row():
            return plain_layers(node, holder)
        case Mixture() | Presence() | Depth():
            return tuple(layer for kept in _kept(node, holder) for layer in _list(kept, holder))
        case Stack():
            return (Stack(plain_layers(node, holder)),)
    return (_single(node, holder),)


def _only_branch(node: Mixture, row: Sequence[Gate], holder: GateHolder) -> Layer | None:
    """The one option that adds to the stream, where its gate can be folded into it.

    Besides it only nothing may be on, and what passes by must be the whole stream.
    """
    on = [i for i, gate in enumerate(row) if not is_off(gate)]
    busy = [i for i in on if not _is_nothing(node.options[i])]
    whole = node.name in holder.current.loose or abs(sum(map(plain_number, row)) - 1) < 1e-6
    if len(busy) != 1 or not whole:
        return None
    found = node.options[busy[0]]
    folds = isinstance(found, Residual) and (found.place == "pre" or found.norm is None)
    return found if folds else None


def _is_nothing(layer: Layer) -> bool:
    return isinstance(layer, Identity) or (isinstance(layer, Row) and not layer.layers)


def _kept(node: Mixture | Presence | Depth, holder: GateHolder) -> tuple[Layer, ...]:
    """What the gates leave of a place in a list."""
    row = holder.row(node.name)
    if isinstance(node, Presence):
        gate = row[node.index]
        if not is_off(gate) and gate != 1.0:
            raise SpecError(f"The gates of {node.name!r} must be 0 or 1 in a plain model.")
        return () if is_off(gate) else (node.layer,)
    chosen = [index for index, gate in enumerate(row) if not is_off(gate)]
    if isinstance(node, Mixture) and (branch := _only_branch(node, row, holder)) is not None:
        return (branch,)
    if len(chosen) != 1 or row[chosen[0]] != 1.0:
        raise SpecError(
            f"The gates of {node.name!r} leave {len(chosen)} options, or weigh one by other than "
            "1; a plain model needs exactly one, with gate 1."
        )
    if isinstance(node, Depth):
        return tuple(node.units[number] for number in node.kept[chosen[0]])
    return (node.options[chosen[0]],)


def _single(node: Layer, holder: GateHolder) -> Layer:
    match node:
        case Gated():
            return _parallel(node, holder)
        case Elastic():
            found: Layer = compiled(node.template.layer).build(holder.sizes)
            return kept_node(node.template.layer, node.largest, found, holder)
        case OpenNorm():
            return node.norm.replace(mean=float(holder.number(node.name)))
        case OpenConnected():
            weights = tuple(
                float(holder.number(name)) if name else weight
                for name, weight in zip(node.names, node.fixed.weights, strict=True)
            )
            layers = tuple(_one(layer, holder) for layer in node.fixed.layers)
            return node.fixed.replace(layers=layers, weights=weights)
    return _inside(node, holder)


def _inside(node: Layer, holder: GateHolder) -> Layer:
    """A plain layer, with what it holds made plain."""
    changes: dict[str, Any] = {}
    for name, value in node.values().items():
        if isinstance(value, Layer):
            changes[name] = _one(value, holder)
        elif isinstance(value, tuple) and any(isinstance(item, Layer) for item in value):
            changes[name] = tuple(
                _one(item, holder) if isinstance(item, Layer) else item for item in value
            )
    same = changes == {key: getattr(node, key) for key in changes}
    return node if same else node.replace(**changes)


def _one(node: Any, holder: GateHolder) -> Any:
    if node is None:
        return None
    found = _list(node, holder)
    if len(found) > 1:
        return Stack(found)
    return found[0] if found else None


def _parallel(node: Gated, holder: GateHolder) -> Parallel:
    branches = tuple(
        layer
        for branch in node.branches
        if not is_off(gate_of(branch.terms, holder))
        for layer in _list(branch.layer, holder)
    )
    return Parallel(branches, node.join, node.pad)


def gate_of(terms: tuple[Term, ...], holder: GateHolder) -> Gate:
    """The gate of a branch: the product of its terms."""
    product: Gate = 1.0
    for term in terms:
        row = holder.row(term.name)
        product = product * total(row[i] for i in term.indices)
    return product
