"""Which copies of a unit stand for a depth: any map, in members, weights, gates and prices."""

from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from formwright.arch import (
    Attention,
    Decoder,
    FeedForward,
    LayerNorm,
    Parallel,
    RelativeXL,
    Residual,
)
from formwright.errors import SpecError
from formwright.ops import Past
from formwright.ops.base import Context
from formwright.space import OneOf, Repeat, TreeSpace
from formwright.supernet import Gates, Supernet
from tests.helpers import inputs_for
from tests.supernet.spaces import space
from tests.supernet.test_supernet import run, shaken
from tests.supernet.test_width import layer


def depths(which: Any) -> TreeSpace:
    unit = (
        Residual(Attention(2).replace(heads=OneOf("heads", (1, 2)))),
        Residual(FeedForward(8).replace(inner=OneOf("inner", (4, 8)))),
    )
    layers = Repeat("depth", unit, 1, 4, which=which)
    backbone = Decoder(16, position=RelativeXL(shared_bias=False))
    return space(layers, backbone=backbone)


TABLE = ((3,), (1, 2), (0, 2, 3), (0, 1, 2, 3))


@pytest.mark.parametrize("which", ["first", "spread", TABLE])
def test_members_of_any_map_are_the_same_inside_and_outside(which: Any) -> None:
    found = depths(which)
    supernet = shaken(Supernet(found))
    inputs = inputs_for(supernet)
    tokens = inputs["tokens"]
    for seed in range(20):
        decisions = found.sample(Random(seed))
        plain = supernet.extract(decisions)
        assert plain.arch == found.resolve(decisions)
        pasts = Past(), Past()
        for piece in tokens.split(4, dim=1):
            with supernet.gated(decisions):
                inside = run(supernet, {"tokens": piece, "past": pasts[0]})
            outside = run(plain, {"tokens": piece, "past": pasts[1]})
            torch.testing.assert_close(inside, outside, rtol=0, atol=1e-12)
        materialised = supernet.materialise(supernet.gates_for(decisions))
        assert materialised.arch == plain.arch


def test_a_shallow_member_has_the_weights_of_the_copies_it_keeps() -> None:
    found = depths("spread")
    supernet = shaken(Supernet(found))
    plain = supernet.extract({"depth": 2, "heads0": 1, "inner0": 8, "heads2": 2, "inner2": 4})
    units = layer(supernet).units
    assert torch.equal(layer(plain, 0).norm.weight, units[0].layers[0].norm.weight)
    assert torch.equal(layer(plain, 2).norm.weight, units[2].layers[0].norm.weight)
    assert torch.equal(
        layer(plain, 3).inner.up.weight, units[2].layers[1].inner.whole.up.weight[:4]
    )


def test_gates_of_several_depths_weigh_the_streams_of_their_copies() -> None:
    supernet = shaken(Supernet(depths(TABLE)))
    depth: Any = layer(supernet)
    x = torch.randn(1, 4, 16, dtype=torch.float64)

    def through(*numbers: int) -> Tensor:
        y = x
        for number in numbers:
            y = depth.units[number](y, Context())
        return y

    gates = Gates({"depth": [0.5, 0.0, 0.25, 0.25]})
    with torch.no_grad(), supernet.gated(gates):
        found = depth(x, Context())
        expected = 0.5 * through(3) + 0.25 * through(0, 2, 3) + 0.25 * through(0, 1, 2, 3)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    with supernet.gated(gates), pytest.raises(SpecError, match="one depth at a time"):
        depth(x, Context(past=Past()))


def test_prices_of_a_depth_are_those_of_its_copies() -> None:
    unit = Residual(FeedForward(8)).replace(norm=OneOf("norm", (LayerNorm(), None)))
    units = Repeat("depth", unit, 1, 3, which=((2,), (0, 2), (0, 1, 2)))
    supernet = Supernet(space(units, backbone=Decoder(16)))

    def price(layer: Any, site: Any) -> float:
        return 10.0 ** int(layer.norm.name[-1]) if isinstance(layer, Residual) else 0.0

    assert supernet.prices(price)["depth"] == [100.0, 101.0, 111.0]


def test_copies_beside_each_other_follow_the_map_too() -> None:
    copies = Repeat("copies", FeedForward(2), 1, 3, which=((1,), (0, 2), (0, 1, 2)))
    mix = Parallel((FeedForward(4),)).replace(branches=(FeedForward(4), copies))
    supernet = shaken(Supernet(space(Residual(mix), backbone=Decoder(16))))
    for number, kept in ((1, [1]), (2, [0, 2])):
        plain = supernet.extract({"copies": number})
        taken = [branch.up.weight for branch in layer(plain).inner.branches][1:]
        every = [branch.up.weight for branch in layer(supernet).inner.branches][1:]
        assert all(map(torch.equal, taken, [every[index] for index in kept]))
