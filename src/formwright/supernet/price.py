"""What the options of each decision cost, from any price of a layer at a place."""

from collections.abc import Callable, Iterator
from typing import Any

from formwright.arch import Architecture, Layer, Site, Stack
from formwright.supernet.gates import GateHolder
from formwright.supernet.node import Depth, Gated, Mixture, OpenConnected, Presence, Row

Price = Callable[[Layer, Site], float]


def prices(arch: Architecture, holder: GateHolder, price: Price) -> dict[str, list[float]]:
    """Decision name to the price of each option; 0 where an option has none of its own."""
    found = {n: [0.0] * len(slot.values) for n, slot in holder.slots.items() if slot.gated}
    for _, stack, site in arch.stacks():
        for layer, place in _placed(stack, site):
            _add(layer, place, found, price)
    return found


def _add(layer: Layer, site: Site, found: dict[str, list[float]], price: Price) -> None:
    match layer:
        case Mixture():
            for index, option in enumerate(layer.options):
                found[layer.name][index] += _of(option, site, price)
        case Presence():
            found[layer.name][layer.index] += _of(layer.layer, site, price)
        case Depth():
            units = [_of(unit, site, price) for unit in layer.units]
            for index, kept in enumerate(layer.kept):
                found[layer.name][index] += sum(units[number] for number in kept)
        case Gated():
            for branch in layer.branches:
                for term in branch.terms[-1:]:  # the innermost decision pays
                    for index in term.indices:
                        found[term.name][index] += _of(branch.layer, site, price)
        case _:
            pass


def _of(layer: Layer, site: Site, price: Price) -> float:
    if isinstance(layer, Row):
        return sum(_of(inner, place, price) for inner, place in layer.placed(site))
    return price(layer, site)


def _placed(layer: Layer, site: Site) -> Iterator[tuple[Layer, Site]]:
    """Every layer at or below one, with its place."""
    yield layer, site
    inner: Any
    if isinstance(layer, Stack):
        for inner, place in layer.placed(site):
            yield from _placed(inner, place)
        return
    below = layer.fixed.children() if isinstance(layer, OpenConnected) else layer.children()
    for _, inner in below:
        if isinstance(inner, Layer):
            yield from _placed(inner, site)
