"""Small spaces of every kind that a supernet must hold."""

from random import Random
from typing import Any

from formwright.arch import (
    Alibi,
    Architecture,
    Attention,
    Classify,
    Decoder,
    DynamicConv,
    Encoder,
    FeedForward,
    Frame,
    Identity,
    LanguageModel,
    LayerNorm,
    Learned,
    LightConv,
    Linear,
    MaskedLM,
    Parallel,
    RelativeXL,
    Residual,
    RMSNorm,
    Rotary,
    SeparableConv,
    Seq2Seq,
    Sinusoid,
    Stack,
    T5Buckets,
)
from formwright.arch.connector import Connected
from formwright.arch.mechanism import LinearTransformer, Local, Softmax
from formwright.space import Maybe, OneOf, Repeat, SomeOf, Span, TreeSpace
from formwright.space.choice import stack_of

WIDTH, VOCAB, LENGTH = 16, 20, 12
CAUSAL = Frame(VOCAB, LENGTH, LanguageModel())
MASKED = Frame(VOCAB, LENGTH, MaskedLM())
CLASSES = Frame(VOCAB, LENGTH, Classify(3, pool="cls"))


def space(*layers: Any, backbone: Any = None, frame: Frame = CAUSAL) -> TreeSpace:
    return TreeSpace(Architecture(stack_of(*layers), backbone or Decoder(WIDTH), frame=frame))


def order(slots: int = 4) -> TreeSpace:
    """PAR: attention, feed-forward or nothing, on Transformer-XL's positions."""
    options = (Residual(Attention(2)), Residual(FeedForward(24)), Identity())
    layers = (OneOf(f"layer{i}", options) for i in range(slots))
    return space(*layers, backbone=Decoder(WIDTH, position=RelativeXL()))


def blocks(join: str = "mean") -> TreeSpace:
    """DARTFormer: some of many single-head blocks, averaged."""
    kinds = (Softmax(), Local(4), LinearTransformer())
    options = tuple(Attention(1, kind, key=4) for kind in kinds for _ in range(2))
    mix = Parallel((Attention(1),)).replace(
        branches=(SomeOf("heads", options, least=1),), join=join
    )
    layers = (Residual(mix), Residual(FeedForward(24)))
    return space(*layers, backbone=Encoder(WIDTH), frame=CLASSES)


def kinds() -> TreeSpace:
    """NAS-BERT and layer-wise DARTFormer: another kind in each layer."""
    options = (
        Residual(Attention(2, bias=False), "post"),
        Residual(SeparableConv(3), "post"),
        Residual(LightConv(3, heads=2)),
        Residual(DynamicConv(5, heads=2)),
        (Residual(FeedForward(20, gate=True)), Residual(Attention(4, kv_heads=2))),
        (),
    )
    layers = (OneOf(f"layer{i}", options) for i in range(3))
    return space(*layers, backbone=Encoder(WIDTH, position=Learned()), frame=MASKED)


def deep(position: Any = None) -> TreeSpace:
    """LiteTransformerSearch: depth, and heads and inner width per layer."""
    unit = (
        Residual(Attention(2).replace(heads=OneOf("heads", (2, 4, 8)))),
        Residual(FeedForward(8).replace(inner=Span("inner", 8, 40, 8))),
    )
    position = position or RelativeXL(shared_bias=False)
    return space(Repeat("depth", unit, 1, 3), backbone=Decoder(WIDTH, position=position))


def dropped() -> TreeSpace:
    """Layers that may be left out, norms and words that may differ."""
    norm = OneOf("norm", (LayerNorm(), RMSNorm(), None))
    unit = (
        Maybe("s", Residual(Attention(2)).replace(norm=norm)),
        Maybe("f", Residual(FeedForward(24).replace(activation=OneOf("act", ("relu", "gelu"))))),
    )
    return space(Repeat("depth", unit, 2, 2), Maybe("last", Residual(FeedForward(8))))


def grouped() -> TreeSpace:
    """Grouped-query attention: heads, key-value heads and channels of each."""
    attention = Attention(4).replace(
        heads=OneOf("heads", (4, 8)),
        kv_heads=OneOf("groups", (1, 2, 4)),
        key=OneOf("key", (2, 4)),
        value=OneOf("value", (3, 5)),
        query_key="separate",
        conv=OneOf("conv", (0, 3)),
    )
    gated = FeedForward(8, gate=True).replace(inner=OneOf("inner", (4, 12, 20)))
    return space(Residual(attention), Residual(gated), backbone=Decoder(WIDTH, position=Rotary()))


def solo() -> TreeSpace:
    """Primer: a square map of all heads' channels."""
    attention = Attention(4, query_key="solo").replace(heads=OneOf("heads", (2, 4)), key=4)
    return space(Residual(attention), backbone=Decoder(WIDTH, position=T5Buckets(8, 16, False)))


def connected() -> TreeSpace:
    """Finding Fast Transformers: parts side by side or stacked; a share of the mean."""
    parts = (Attention(1, key=4), FeedForward(8), FeedForward(8, out_bias=False))
    weights = tuple(OneOf(f"close{i}", (0.0, 1.0)) for i in range(2))
    chain = Connected(parts, (0.0, 0.0, 0.0)).replace(weights=(*weights, 0.0))
    norm = LayerNorm().replace(mean=OneOf("mean", (0.0, 1.0)))
    mix = Parallel(parts).replace(branches=(SomeOf("parts", parts), FeedForward(4)))
    return space(chain, norm, Residual(mix))


def beside() -> TreeSpace:
    """Everything that may stand side by side."""
    mix = Parallel((Linear(WIDTH),)).replace(
        branches=(
            Linear(WIDTH),
            Maybe("a", FeedForward(6)),
            OneOf("b", (Linear(WIDTH), (FeedForward(4), Linear(WIDTH)), ())),
            Repeat("c", Attention(1).replace(heads=OneOf("h", (1, 2))), 0, 2),
        ),
        join="mean",
    )
    some = SomeOf("row", (Residual(FeedForward(6)), Identity(), Residual(Attention(2))))
    return space(Residual(mix), some, backbone=Decoder(WIDTH, position=Alibi()))


def translator() -> TreeSpace:
    """Choices in an encoder and in a decoder."""
    encoder = stack_of(OneOf("e", (Residual(Attention(2)), Residual(FeedForward(8)))))
    cross = Residual(Attention(2, over="source"))
    decoder = stack_of(cross, OneOf("d", (Residual(Attention(2)), Identity())))
    backbone = Seq2Seq(WIDTH, position=Sinusoid())
    arch = Architecture(Stack(), backbone, Stack(), CAUSAL)
    return TreeSpace(arch.replace(layers=decoder, encoder=encoder))


def stacks() -> TreeSpace:
    """A choice between whole stacks."""
    unit = Residual(FeedForward(8).replace(inner=OneOf("inner", (4, 8))))
    options = tuple(stack_of(*(unit,) * depth) for depth in (1, 2))
    arch = Architecture(Stack(), Decoder(WIDTH), frame=CAUSAL)
    return TreeSpace(arch.replace(layers=OneOf("depth", options)))


SPACES = {
    make.__name__: make
    for make in (
        order,
        blocks,
        kinds,
        deep,
        dropped,
        grouped,
        solo,
        connected,
        beside,
        translator,
        stacks,
    )
}


def member(found: TreeSpace, seed: int) -> Any:
    """A member whose parts fit: some draws of ``grouped`` do not, and are not asked for."""
    return found.sample(Random(seed))
