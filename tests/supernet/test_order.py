"""Heads and channels in another order: the largest member stays, smaller ones get the first."""

from random import Random

import pytest
import torch

from formwright.arch import (
    Alibi,
    Attention,
    Decoder,
    Embedding,
    Encoder,
    FeedForward,
    LayerNorm,
    Learned,
    RelativeXL,
    Residual,
)
from formwright.errors import InputError, SpecError
from formwright.space import OneOf, TreeSpace
from formwright.supernet import Supernet, reorder
from formwright.supernet.elastic import ElasticOp
from tests.helpers import inputs_for
from tests.supernet.spaces import MASKED, WIDE, space, wide
from tests.supernet.test_supernet import run, shaken
from tests.supernet.test_width import layer


def entrance() -> TreeSpace:
    """An embedding with a size and a norm of its own: its channels are not those of the stream."""
    backbone = Encoder(1, Embedding(size=6, norm=LayerNorm()), Learned())
    layers = (Residual(Attention(2)), Residual(FeedForward(8)))
    return wide(*layers, backbone=backbone, frame=MASKED)


@pytest.mark.parametrize("name", ["gpt2", "transformer_xl", "wide_order", "bert", "entrance"])
def test_another_order_changes_smaller_members_and_not_the_largest(name: str) -> None:
    found = entrance() if name == "entrance" else WIDE[name]()
    supernet = shaken(Supernet(found))
    inputs = inputs_for(supernet)
    small = {**found.sample(Random(1)), "width": 8}
    before = run(supernet, inputs)
    with supernet.gated(small):
        first = run(supernet, inputs)
    reorder(supernet, Random(0).sample(range(24), 24))
    torch.testing.assert_close(run(supernet, inputs), before, rtol=0, atol=1e-12)
    with supernet.gated(small):
        assert not torch.allclose(run(supernet, inputs), first)


def test_the_best_heads_and_channels_can_come_first() -> None:
    attention = Attention(4, key=4).replace(heads=OneOf("heads", (1, 2, 4)))
    feedforward = FeedForward(8, gate=True).replace(inner=OneOf("inner", (2, 8)))
    backbone = Decoder(16, position=RelativeXL(shared_bias=False))
    supernet = shaken(
        Supernet(space(Residual(attention), Residual(feedforward), backbone=backbone))
    )
    inputs = inputs_for(supernet)
    before, attend, feed = run(supernet, inputs), layer(supernet).inner, layer(supernet, 1).inner
    assert isinstance(attend, ElasticOp)
    query, content = attend.whole.query.weight.clone(), attend.whole.position.content.clone()
    up = feed.whole.up.weight.clone()
    reorder(supernet, [2, 0, 3, 1], "stacks.layers.layers.0.inner")
    reorder(supernet, [7, 1, 2, 3, 4, 5, 6, 0], "stacks.layers.layers.1.inner")
    torch.testing.assert_close(run(supernet, inputs), before, rtol=0, atol=1e-12)
    plain = supernet.extract({"heads": 1, "inner": 2})
    assert torch.equal(layer(plain).inner.query.weight, query[8:12])
    assert torch.equal(layer(plain).inner.position.content, content[2:3])
    assert torch.equal(layer(plain, 1).inner.up.weight, up[[7, 1]])


def test_an_order_that_is_not_free_is_refused() -> None:
    supernet = Supernet(wide(Residual(Attention(2)), backbone=Encoder(1, position=Alibi())))
    with pytest.raises(SpecError, match="no parts whose order is free"):
        reorder(supernet, [1, 0], "stacks.layers.layers.0.inner")
    with pytest.raises(SpecError, match="no parts whose order is free"):
        reorder(supernet, [1, 0], "embedding")
    with pytest.raises(InputError, match="each number below 24 once"):
        reorder(supernet, [0, 0])
    sinusoid = Supernet(wide(Residual(FeedForward(4)), backbone=Decoder(1)))
    with pytest.raises(SpecError, match="sinusoid positions fix the order"):
        reorder(sinusoid, range(24))
    with pytest.raises(SpecError, match="separable fixes the order of the stream"):
        reorder(Supernet(WIDE["factorised"]()), range(24))
