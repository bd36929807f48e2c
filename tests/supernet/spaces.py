"""Small spaces of every kind that a supernet must hold."""

from typing import Any

from formwright.arch import (
    GLU,
    Alibi,
    Architecture,
    Attention,
    Block,
    Branch,
    Cell,
    Classify,
    Conv,
    Decoder,
    DepthwiseConv,
    DynamicConv,
    Embedding,
    Encoder,
    FeedForward,
    Frame,
    Head,
    Identity,
    LanguageModel,
    LayerNorm,
    Learned,
    LightConv,
    Linear,
    MaskedLM,
    Match,
    Parallel,
    PrimerNorm,
    RelativeXL,
    Residual,
    RMSNorm,
    Rotary,
    SeparableConv,
    Seq2Seq,
    Sinusoid,
    Stack,
    T5Buckets,
    Tag,
)
from formwright.arch.connector import Connected
from formwright.arch.graph.formulas import standard
from formwright.arch.mechanism import LinearTransformer, Local, Performer, Softmax
from formwright.space import Derived, Maybe, OneOf, Repeat, SomeOf, Span, TreeSpace
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


def wide(*layers: Any, backbone: Any, frame: Frame = CAUSAL, encoder: Any = None) -> TreeSpace:
    """A space whose stream has three widths."""
    arch = Architecture(stack_of(*layers), backbone.replace(width=WIDTHS), frame=frame)
    return TreeSpace(arch if encoder is None else arch.replace(encoder=stack_of(*encoder)))


WIDTHS = Span("width", 8, 24, 8)
RATIO = OneOf("ratio", (1, 2, 3))
FOLLOWING = FeedForward(8).replace(inner=Derived("width", RATIO))


def gpt2() -> TreeSpace:
    """Depth, heads and inner width per layer; fewer layers are spread over the stack."""
    attention = Attention(2).replace(heads=OneOf("heads", (2, 4)))
    unit = (Residual(attention), Residual(FOLLOWING))
    backbone = Decoder(1, position=Learned(), init="gpt2")
    return wide(Repeat("depth", unit, 1, 3, which="spread"), backbone=backbone)


def llama() -> TreeSpace:
    """Heads of one size, as many as the width has room for, in groups; gated feed-forwards."""
    heads = Derived("width", 1 / 4, rounding="down")
    attention = Attention(2, kv_heads=2, bias=False).replace(heads=heads)
    gated = FeedForward(8, gate=True, bias=False)
    gated = gated.replace(inner=Derived("width", OneOf("ratio", (1.5, 2, 3)), 4))
    unit = (Residual(attention, norm=RMSNorm()), Residual(gated, norm=RMSNorm()))
    layers = Repeat("depth", unit, 1, 3, which=((2,), (0, 2), (0, 1, 2)))
    embedding = Embedding(tied=False)
    return wide(layers, backbone=Decoder(1, embedding, Rotary(), RMSNorm()))


def transformer_xl() -> TreeSpace:
    """Adaptive embedding and softmax, relative positions, sizes per layer."""
    attention = Attention(2).replace(heads=OneOf("heads", (1, 2, 4)))
    unit = (Residual(attention, "post"), Residual(FOLLOWING, "post"))
    embedding = Embedding(clusters=(8, 14), divide=2, scale=True)
    backbone = Decoder(1, embedding, RelativeXL(shared_bias=False), init="xl")
    return wide(Repeat("depth", unit, 1, 3, which="spread"), backbone=backbone)


def wide_order() -> TreeSpace:
    """PAR in several widths; all layers share the two vectors of their positions."""
    feedforward = FeedForward(8).replace(inner=Derived("width", 2))
    options = (Residual(Attention(2)), Residual(feedforward), ())
    layers = (OneOf(f"layer{i}", options) for i in range(3))
    return wide(*layers, backbone=Decoder(1, position=RelativeXL()))


def bert() -> TreeSpace:
    """Segments, learned positions, heads of one size; the inner width is bounded by the width."""
    attention = Attention(2, key=4).replace(heads=OneOf("heads", (1, 2, 3)))
    inner = Span("inner", 8, 40, 8, above=1.0, of="width")
    feedforward = FeedForward(8).replace(inner=inner)
    unit = (Residual(attention, "post"), Residual(feedforward, "post"))
    embedding = Embedding(segments=2, norm=LayerNorm(), bias=True)
    backbone = Encoder(1, embedding, Learned(), None, "bert")
    return wide(Repeat("depth", unit, 1, 3), backbone=backbone, frame=MASKED)


def factorised() -> TreeSpace:
    """NAS-BERT's entrance: an embedding with a size of its own, open as well."""
    embedding = Embedding(segments=2, norm=LayerNorm()).replace(size=OneOf("size", (4, 6)))
    unit = (Residual(SeparableConv(3)), Residual(FOLLOWING))
    layers = Repeat("depth", unit, 1, 2)
    return wide(layers, backbone=Encoder(1, embedding, Learned()), frame=MASKED)


def _reader(head: Head, position: Any) -> TreeSpace:
    unit = (Residual(Attention(2).replace(heads=OneOf("heads", (2, 4)))), Residual(FOLLOWING))
    frame = Frame(VOCAB, LENGTH, head)
    return wide(Repeat("depth", unit, 1, 2), backbone=Encoder(1, position=position), frame=frame)


def classifier() -> TreeSpace:
    """A vector in front, hidden maps behind."""
    return _reader(Classify(3, pool="cls", hidden=(5,)), T5Buckets(8, 16, False))


def matcher() -> TreeSpace:
    """Two texts side by side."""
    return _reader(Match(2, hidden=(5,)), Alibi())


def tagger() -> TreeSpace:
    """One answer for each token."""
    return _reader(Tag(4), Sinusoid())


def wide_translator() -> TreeSpace:
    """An encoder and a decoder of one width, each with a depth."""
    cross = Attention(2, over="source").replace(heads=OneOf("cross", (1, 2)))
    writer = (Residual(Attention(2)), Residual(cross), Residual(FOLLOWING))
    feedforward = FeedForward(8).replace(inner=OneOf("inner", (8, 12)))
    reader = Repeat("reads", (Residual(Attention(4)), Residual(feedforward)), 1, 2, which="spread")
    return wide(Repeat("writes", writer, 1, 2), backbone=Seq2Seq(1), encoder=(reader,))


def wide_kinds() -> TreeSpace:
    """Every kind of layer that can be cut: convolutions, maps, mechanisms, formulas, cells."""
    gated = Stack().replace(layers=(GLU(), DepthwiseConv(3), Linear(8).replace(out=WIDTHS)))
    options = (
        Residual(SeparableConv(3, units=2)),
        Residual(LightConv(3, heads=2)),
        Residual(DynamicConv(3, heads=4)),
        Residual(Conv(3)),
        Residual(gated),
        Residual(Attention(2, Performer("favor", 8))),
        Residual(Attention(2, Local(4))),
        (Residual(FeedForward(6)), Residual(Attention(4, query_key="solo"))),
        Residual(Attention(4, kv_heads=2, conv=3)),
        Residual(standard(2)),
        Cell(
            (
                Block(Branch(0, Attention(2), norm=True), Branch(0, Identity())),
                Block(Branch(1, Conv(1), True, 4, "relu"), Branch(1, GLU(), True, 1)),
            )
        ),
        PrimerNorm(),
    )
    some = SomeOf("some", (Residual(FeedForward(4)), Residual(Attention(2)), LayerNorm()))
    layers = (OneOf(f"layer{i}", options) for i in range(2))
    return wide(*layers, some, backbone=Decoder(1))


def wide_connected() -> TreeSpace:
    """Connectors, blocks side by side, open norms: none of it has a width of its own."""
    parts = (Attention(1, key=4), FeedForward(8))
    chain = Connected(parts, (0.0, 0.0)).replace(weights=(OneOf("close", (0.0, 1.0)), 0.0))
    copies = Repeat("copies", Attention(1), 0, 3, which=((), (1,), (0, 2), (0, 1, 2)))
    mix = Parallel(parts).replace(branches=(SomeOf("parts", parts), FeedForward(4), copies))
    norm = OneOf("norm", (LayerNorm(), RMSNorm(), None))
    mean = LayerNorm().replace(mean=OneOf("mean", (0.0, 1.0)))
    last = Residual(FeedForward(4)).replace(norm=norm)
    return wide(chain, mean, Residual(mix), last, backbone=Decoder(1))


def many_heads() -> TreeSpace:
    """The width follows from the number of heads."""
    attention = Attention(2).replace(heads=OneOf("heads", (2, 4, 6)))
    feedforward = FeedForward(8).replace(inner=Derived("heads", 6))
    unit = (Residual(attention), Residual(feedforward))
    layers = stack_of(Repeat("depth", unit, 1, 3, shared=("heads",)))
    backbone = Decoder(1).replace(width=Derived("heads", 4))
    return TreeSpace(Architecture(layers, backbone, frame=CAUSAL))


WIDE = {
    make.__name__: make
    for make in (
        gpt2,
        llama,
        transformer_xl,
        wide_order,
        bert,
        factorised,
        classifier,
        matcher,
        tagger,
        wide_translator,
        wide_kinds,
        wide_connected,
        many_heads,
    )
}
