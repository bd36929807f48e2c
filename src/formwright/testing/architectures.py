"""Random architectures that are small, valid, and use the whole language.

The generator only needs a ``Random``; a property-based test can pass in its own, so that a
failing case shrinks.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, get_args

from formwright.arch import (
    GLU,
    Activation,
    Alibi,
    Architecture,
    Attention,
    Backbone,
    Classify,
    Conv,
    Decoder,
    DepthwiseConv,
    DynamicConv,
    Embedding,
    Encoder,
    Features,
    FeedForward,
    Frame,
    Head,
    Identity,
    LanguageModel,
    Layer,
    LayerNorm,
    Learned,
    LightConv,
    Linear,
    MaskedLM,
    Match,
    Norm,
    Parallel,
    Position,
    PrimerNorm,
    RelativeXL,
    Residual,
    RMSNorm,
    Rotary,
    SeparableConv,
    Seq2Seq,
    Sinusoid,
    Span,
    Stack,
    T5Buckets,
    Tag,
)
from formwright.arch.architecture import InitKind
from formwright.arch.attention import QueryKeyKind
from formwright.arch.frame import PoolKind
from formwright.arch.layer import ActivationKind, JoinKind

WIDTHS = (8, 12, 16, 24)
LENGTH = 12
VOCAB = 20
_PLACES: Sequence[Literal["pre", "post", "after"]] = ("pre", "post", "after")


def random_architecture(rng: Random, kind: str | None = None) -> Architecture:
    """A small valid architecture; ``kind`` is decoder, encoder, seq2seq or left to chance."""
    kind = kind or rng.choice(("decoder", "encoder", "seq2seq"))
    width = rng.choice(WIDTHS)
    position = _position(rng)
    maker = _Maker(rng, position, heads=rng.choice((1, 2, 4)))
    encoder = maker.stack(width, depth=2, source=False) if kind == "seq2seq" else None
    layers = maker.stack(width, depth=2, source=kind == "seq2seq")
    backbone = _backbone(rng, kind, width, position)
    frame = Frame(VOCAB, LENGTH, _head(rng, kind))
    return Architecture(layers, backbone, encoder, frame).check()


class _Maker:
    """Draws layers that fit where they stand; ``heads`` is fixed because positions share it."""

    def __init__(self, rng: Random, position: Position | None, heads: int) -> None:
        self.rng, self.position, self.heads = rng, position, heads
        self.key = rng.choice((2, 4)) if position is not None and position.same_heads else None

    def stack(self, width: int, depth: int, *, source: bool) -> Stack:
        """A few layers; the width may change on the way but ends as it began."""
        layers: list[Layer] = []
        now = width
        for _ in range(self.rng.randint(1, 4)):
            if self.rng.random() < 0.15:
                now = self.rng.choice(WIDTHS)
                layers.append(Linear(now, bias=self.chance()))
            layers.append(self.layer(now, depth, source=source))
        if now != width:
            layers.append(Linear(width))
        return Stack(tuple(layers))

    def layer(self, width: int, depth: int, *, source: bool) -> Layer:
        """A residual branch, mostly; sometimes a bare layer."""
        inner = self.branch(width, depth, source=source)
        if self.rng.random() < 0.1:
            return inner
        norm = None if self.rng.random() < 0.1 else _norm(self.rng)
        return Residual(inner, self.rng.choice(_PLACES), norm)

    def branch(self, width: int, depth: int, *, source: bool) -> Layer:
        """Something that keeps the width."""
        if depth and self.rng.random() < 0.2:
            return self.parallel(width, depth - 1, source=source)
        makers: Sequence[Callable[[int], Layer]] = (
            self.attention,
            self.attention,
            self.feedforward,
            self.convolution,
            self.chain,
        )
        if source and self.rng.random() < 0.3:
            return self.attention(width).replace(over="source", query_key="separate")
        return self.rng.choice(makers)(width)

    def parallel(self, width: int, depth: int, *, source: bool) -> Layer:
        """Branches side by side, some narrower than others."""
        join: JoinKind = self.rng.choice(get_args(JoinKind))
        count = self.rng.randint(1, 3)
        branches = [self.branch(width, depth, source=source) for _ in range(count)]
        if join == "concat":
            return Stack((Parallel(tuple(branches), "concat"), Linear(width)))
        branches.append(Linear(max(1, width // 2)))
        return Parallel(tuple(branches), join, pad=True)

    def attention(self, width: int) -> Attention:
        """Any self-attention that the positions allow."""
        query_key: QueryKeyKind = self.rng.choice(("separate", *get_args(QueryKeyKind)))
        grouped = query_key in ("separate", "none") and self.chance()
        even_width = width // self.heads % 2 == 0
        key = self.key or (None if even_width and self.chance() else self.rng.choice((2, 4)))
        return Attention(
            self.heads,
            kv_heads=self.rng.choice([h for h in (1, 2, 4) if self.heads % h == 0])
            if grouped
            else None,
            key=key,
            value=self.rng.choice((None, 3)),
            query_key=query_key,
            conv=self.rng.choice((0, 0, 3)),
            bias=self.chance(),
            head_norm=1e-6 if query_key == "separate" and self.chance() else None,
        )

    def feedforward(self, width: int) -> FeedForward:
        """Any feed-forward."""
        activation = self.rng.choice(get_args(ActivationKind))
        inner = self.rng.choice((5, 16, 32))
        return FeedForward(inner, activation, gate=self.chance(), bias=self.chance())

    def convolution(self, width: int) -> Layer:
        """Any convolution that keeps the width."""
        kernel = self.rng.choice((1, 3, 5))
        heads = self.rng.choice([h for h in (1, 2, 4) if width % h == 0])
        return self.rng.choice(
            (
                Conv(kernel, bias=self.chance()),
                DepthwiseConv(kernel, bias=self.chance()),
                SeparableConv(kernel, units=self.rng.randint(1, 2)),
                LightConv(kernel, heads=heads, softmax=self.chance()),
                DynamicConv(kernel, heads=heads),
            )
        )

    def chain(self, width: int) -> Layer:
        """Small layers in a row."""
        return Stack(
            (
                GLU(self.rng.choice((None, 6)), bias=self.chance()),
                Activation(self.rng.choice(get_args(ActivationKind))),
                _norm(self.rng),
                Identity(),
                Linear(width),
            )
        )

    def chance(self) -> bool:
        """Heads or tails."""
        return self.rng.random() < 0.5


def _norm(rng: Random) -> Norm:
    return rng.choice(
        (LayerNorm(), LayerNorm(bias=False), LayerNorm(mean=0.0), RMSNorm(), PrimerNorm())
    )


def _position(rng: Random) -> Position | None:
    return rng.choice(
        (
            None,
            Sinusoid(),
            Learned(),
            RelativeXL(),
            RelativeXL(shared_bias=False),
            T5Buckets(buckets=8, distance=16),
            T5Buckets(buckets=8, distance=16, share=False),
            Rotary(),
            Rotary(channels=2),
            Alibi(),
        )
    )


def _backbone(rng: Random, kind: str, width: int, position: Position | None) -> Backbone:
    clustered = rng.random() < 0.2
    embedding = Embedding(
        size=None if clustered else rng.choice((None, 4, 16)),
        clusters=(5, 11) if clustered else (),
        divide=2 if clustered else 1,
        tied=rng.random() < 0.7,
        bias=rng.random() < 0.5,
        scale=rng.random() < 0.5,
        segments=rng.choice((0, 2)),
        norm=rng.choice((None, LayerNorm())),
    )
    cls = {"decoder": Decoder, "encoder": Encoder, "seq2seq": Seq2Seq}[kind]
    norm = rng.choice((None, LayerNorm(), RMSNorm()))
    return cls(width, embedding, position, norm, rng.choice(get_args(InitKind)))


def _head(rng: Random, kind: str) -> Head:
    if kind == "seq2seq":
        return LanguageModel()
    if kind == "decoder":
        return rng.choice((LanguageModel(), Classify(3, pool="last"), Tag(4), Features()))
    pool: PoolKind = rng.choice(get_args(PoolKind))
    return rng.choice(
        (
            MaskedLM(transform=rng.random() < 0.5),
            Classify(3, pool=pool, hidden=rng.choice(((), (7,)))),
            Match(2, pool=pool, hidden=(6,)),
            Tag(4),
            Span(),
            Features(pooler=rng.random() < 0.5),
        )
    )
