"""What the options of each decision cost, from any price of a layer at a place."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from formwright.arch import Architecture, Layer, Site, Stack
from formwright.arch.layer import Residual
from formwright.space.choice import Value
from formwright.space.compile import compiled
from formwright.supernet.gates import GateHolder
from formwright.supernet.node import Depth, Elastic, Gated, Mixture, OpenConnected, Presence, Row

Price = Callable[[Layer, Site], float]


def prices(arch: Architecture, holder: GateHolder, price: Price) -> dict[str, list[float]]:
    """Decision name to the price of each option; 0 where an option has none of its own."""
    found = {n: [0.0] * len(slot.values) for n, slot in holder.slots.items() if slot.gated}
    for _, stack, site in arch.stacks():
        for layer, place in _placed(stack, site):
            _add(layer, place, found, price)
    return found


def slice_prices(arch: Architecture, holder: GateHolder, price: Price) -> dict[str, list[float]]:
    """Size to what each further slice of its operators adds, the other sizes at their largest.

    The first slice, which is the smallest value, is free: there is nothing smaller to choose.
    """
    found = {n: [0.0] * len(slot.values) for n, slot in holder.slots.items() if slot.sliced}
    for _, stack, site in arch.stacks():
        for layer, place in _placed(stack, site):
            open_ = _elastic(layer)
            for name in open_.names if open_ is not None else ():
                if name not in found:
                    continue
                values = holder.slots[name].values
                rows = [price(_sized(layer, holder, {name: v}), place) for v in values]
                for index in range(1, len(rows)):
                    found[name][index] += rows[index] - rows[index - 1]
    return found


def _elastic(layer: Layer) -> Elastic | None:
    """The operator of open size that a layer is, or has in its branch."""
    inner: Any = layer.inner if isinstance(layer, Residual) else layer
    return inner if isinstance(inner, Elastic) else None


def _sized(layer: Layer, holder: GateHolder, sizes: Mapping[str, Value]) -> Layer:
    """A layer whose operator has some sizes, the largest where nothing is said."""
    open_ = _elastic(layer)
    if open_ is None:
        return layer
    largest = {name: holder.slots[name].values[-1] for name in open_.names}
    plain = compiled(open_.template.layer).build({**largest, **sizes}) if sizes else open_.largest
    return layer.replace(inner=plain) if isinstance(layer, Residual) else plain


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
    open_ = _elastic(layer)
    if open_ is not None:  # known to tables by its largest size
        layer = layer.replace(inner=open_.largest) if layer is not open_ else open_.largest
    return price(layer, site)


def _placed(layer: Layer, site: Site) -> Iterator[tuple[Layer, Site]]:
    """Every layer at or below one, with its place."""
    yield layer, site
    inner: Any
    if isinstance(layer, Stack):
        for inner, place in layer.placed(site):
            yield from _placed(inner, place)
        return
    if isinstance(layer, Residual) and isinstance(layer.inner, Elastic):
        return  # its branch is priced with it
    below = layer.fixed.children() if isinstance(layer, OpenConnected) else layer.children()
    for _, inner in below:
        if isinstance(inner, Layer):
            yield from _placed(inner, site)
