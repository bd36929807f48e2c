"""Primer: a T5-like decoder, plain, with Primer's two main changes (EZ), and with all of them.

Paper: https://arxiv.org/abs/2109.08668; layers as in the authors' T5 code. EZ squares the ReLU
and puts a causal depthwise convolution over three tokens behind each projection of attention.
Primer also makes queries from keys (``solo``), has its own norm, and puts the feed-forward's
norm behind it.

Differs from the searched program: like the authors' T5 code it leaves out the spatial gating
after the softmax and the twelvefold feed-forward. Nothing about the shapes is inferred.
"""

from collections.abc import Callable
from functools import partial

from formwright.arch import (
    Architecture,
    Attention,
    Decoder,
    Embedding,
    FeedForward,
    Frame,
    LanguageModel,
    LayerNorm,
    Norm,
    PrimerNorm,
    Residual,
    Stack,
    T5Buckets,
)
from formwright.zoo.registry import Paper, published

PRIMER = Paper(
    "Primer: Searching for Efficient Transformers for Language Modeling",
    "https://arxiv.org/abs/2109.08668",
)
FRAME = Frame(vocab=32_128, length=512, head=LanguageModel())
NORM = LayerNorm(eps=1e-6)


def vanilla(width: int, layers: int, inner: int) -> Architecture:
    """The decoder of T5, with biases in the feed-forward."""
    attention = Residual(Attention(width // 64, bias=False), norm=NORM)
    return _decoder(width, layers, attention, Residual(FeedForward(inner, "relu"), norm=NORM))


def ez(width: int, layers: int, inner: int) -> Architecture:
    """Squared ReLU and convolved projections."""
    attention = Residual(Attention(width // 64, conv=3, bias=False), norm=NORM)
    feedforward = Residual(FeedForward(inner, "squared_relu"), norm=NORM)
    return _decoder(width, layers, attention, feedforward)


def primer(width: int, layers: int, inner: int) -> Architecture:
    """All of Primer's changes that the authors carried over to T5."""
    norm = PrimerNorm()
    mixing = Attention(width // 64, query_key="solo", conv=3, bias=False)
    feedforward = Residual(FeedForward(inner, "squared_relu"), place="after", norm=norm)
    return _decoder(width, layers, Residual(mixing, norm=norm), feedforward, norm)


def _decoder(
    width: int, layers: int, attention: Residual, feedforward: Residual, norm: Norm = NORM
) -> Architecture:
    # T5 divides the tied scores by sqrt(width): the same as scaling what enters
    backbone = Decoder(width, Embedding(scale=True), T5Buckets(), norm, init="t5")
    return Architecture(Stack((attention, feedforward) * layers), backbone, frame=FRAME)


Reported = dict[str, float | str]
Kind = tuple[str, Callable[[int, int, int], Architecture]]

SIZES = {  # width, layers, inner width, published parameters
    "small": (512, 6, 2048, 35_000_000),
    "medium": (768, 12, 3072, 110_000_000),
    "large": (1024, 24, 8192, 537_000_000),
}
KINDS: tuple[Kind, ...] = (("t5-decoder", vanilla), ("primer-ez", ez), ("primer", primer))
REPORTED: dict[str, Reported] = {
    "t5-decoder-small": {"ppl_lm1b_24h": 23.30},
    "primer-ez-small": {"ppl_lm1b_24h": 22.62},
    "primer-small": {"ppl_lm1b_24h": 22.71},
    "t5-decoder-large": {"ppl_c4_1m_steps": 13.25, "tpu_hours_1m_steps": 15_700},
    "primer-large": {
        "ppl_c4_1m_steps": 12.35,
        "tpu_hours_1m_steps": 17_300,
        "steps_to_ppl_13.25": 207_000,
        "tpu_hours_to_ppl_13.25": 3_800,
    },
}

for _size, (_width, _layers, _inner, _params) in SIZES.items():
    for _kind, _build in KINDS:
        published(
            f"{_kind}-{_size}",
            system="Primer",
            paper=PRIMER,
            params=_params,
            reported=REPORTED.get(f"{_kind}-{_size}"),
        )(partial(_build, _width, _layers, _inner))
