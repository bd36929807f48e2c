"""The Evolved Transformer and the Transformers it was compared with, for translation.

Paper: https://arxiv.org/abs/1901.11117; cells as in the authors' tensor2tensor code, which has
one norm more, inside the decoder's last feed-forward, than the paper draws. Norms come before
each branch; attention has no biases; source, target and output share one vocabulary.

Inferred: that vocabulary, 33,288 for English-German (all printed counts agree within 0.05M);
32,000 untied symbols for the language models; 8 heads at widths 128, 432 and 768; the shape of
the deep Transformer, of which only the number of parameters is printed.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from formwright.arch import (
    GLU,
    Activation,
    Architecture,
    Attention,
    Conv,
    Decoder,
    Embedding,
    FeedForward,
    Frame,
    LanguageModel,
    Layer,
    LayerNorm,
    Linear,
    Parallel,
    Residual,
    SeparableConv,
    Seq2Seq,
    Stack,
)
from formwright.zoo.registry import Paper, published

EVOLVED = Paper("The Evolved Transformer", "https://arxiv.org/abs/1901.11117")
NORM = LayerNorm(eps=1e-6)
EN_DE = Frame(vocab=33_288, length=256, head=LanguageModel())
LM1B = Frame(vocab=32_000, length=256, head=LanguageModel())


def encoder_cell(width: int, heads: int) -> tuple[Layer, ...]:
    """Gate, wide convolutions, attention, feed-forward."""
    wide = Parallel(
        (
            Stack((Linear(4 * width), Activation("relu"))),
            Stack((Conv(3, out=width // 2), Activation("relu"))),
        ),
        pad=True,
    )
    narrow = SeparableConv(9, out=width // 2)
    return (
        _branch(GLU()),
        Residual(Stack((wide, NORM, narrow)), norm=NORM, pad=True),
        _branch(_attention(heads)),
        _branch(FeedForward(4 * width, "relu")),
    )


def decoder_cell(width: int, heads: int, *, source: bool = True) -> tuple[Layer, ...]:
    """Two attentions side by side, convolutions, two attentions in a row, feed-forward.

    Without ``source`` there is no encoder to attend to: the cell of the language model.
    """
    many, over = _attention(max(min(2 * heads, 16), heads)), _attention(heads, over_source=True)
    wide = Parallel(
        (
            Stack((SeparableConv(11, out=2 * width), Activation("relu"))),
            SeparableConv(7, out=width // 2),
        ),
        pad=True,
    )
    swish = Stack((Linear(4 * width), Activation("silu"), NORM, Linear(width)))
    return (
        _branch(Parallel((many, over)) if source else many),
        _branch(Stack((wide, NORM, SeparableConv(7, out=width)))),
        _branch(_attention(heads)),
        *((_branch(over),) if source else ()),
        _branch(swish),
    )


def evolved(width: int, heads: int, cells: tuple[int, int]) -> Architecture:
    """So many cells in the encoder and in the decoder."""
    return _translator(
        width,
        encoder_cell(width, heads) * cells[0],
        decoder_cell(width, heads) * cells[1],
    )


def transformer(width: int, heads: int, layers: int) -> Architecture:
    """The Transformer of Vaswani et al., as deep on either side."""
    attention, feedforward = _branch(_attention(heads)), _branch(FeedForward(4 * width, "relu"))
    over = _branch(_attention(heads, over_source=True))
    return _translator(
        width, (attention, feedforward) * layers, (attention, over, feedforward) * layers
    )


def evolved_lm(width: int, heads: int, cells: int) -> Architecture:
    """The decoder alone, as a language model."""
    return _language_model(width, decoder_cell(width, heads, source=False) * cells)


def transformer_lm(width: int, heads: int, layers: int) -> Architecture:
    """The Transformer's decoder alone."""
    layer = (_branch(_attention(heads)), _branch(FeedForward(4 * width, "relu")))
    return _language_model(width, layer * layers)


def _branch(inner: Layer) -> Residual:
    return Residual(inner, norm=NORM)


def _attention(heads: int, *, over_source: bool = False) -> Attention:
    return Attention(heads, over="source" if over_source else "self", bias=False)


def _translator(width: int, encoder: tuple[Layer, ...], decoder: tuple[Layer, ...]) -> Architecture:
    backbone = Seq2Seq(width, Embedding(scale=True), norm=NORM, init="fan")
    return Architecture(Stack(decoder), backbone, encoder=Stack(encoder), frame=EN_DE)


def _language_model(width: int, layers: tuple[Layer, ...]) -> Architecture:
    embedding = Embedding(tied=False, scale=True)
    return Architecture(Stack(layers), Decoder(width, embedding, norm=NORM, init="fan"), frame=LM1B)


# How it is built and from which sizes, and parameters in millions. Then perplexity and BLEU of
# English-German, and BLEU of English-French and English-Czech; of language models the perplexity.
Row = tuple[Callable[..., Architecture], tuple[Any, ...], float | None, tuple[float, ...]]
MODELS: Mapping[str, Row] = {
    "evolved-transformer-base": (evolved, (512, 8, (3, 4)), 64.1, (4.03, 28.4, 40.6, 27.6)),
    "evolved-transformer-big": (evolved, (1024, 16, (3, 4)), 221.7, (3.77, 29.3, 41.3, 28.2)),
    "evolved-transformer-deep": (evolved, (640, 16, (9, 10)), 218.1, (3.69, 29.5)),
    "evolved-transformer-d128": (evolved, (128, 8, (3, 4)), 7.2, (7.62, 22.0)),
    "evolved-transformer-d432": (evolved, (432, 8, (3, 4)), 47.9, (4.36, 27.7)),
    "evolved-transformer-d768": (evolved, (768, 8, (3, 4)), 131.2, (4.00, 28.9)),
    "evolved-transformer-lm": (evolved_lm, (1024, 16, 4), 151.8, (28.60,)),
    "transformer-base": (transformer, (512, 8, 6), 61.1, (4.24, 28.2, 40.0, 27.0)),
    "transformer-big": (transformer, (1024, 16, 6), 210.4, (3.87, 29.1, 41.2, 28.1)),
    "transformer-deep": (transformer, (768, 16, 12), None, (3.86, 29.2)),
    "transformer-d128": (transformer, (128, 8, 6), 7.0, (8.62, 21.3)),
    "transformer-d432": (transformer, (432, 8, 6), 45.8, (4.65, 27.3)),
    "transformer-d768": (transformer, (768, 8, 6), 124.8, (4.18, 28.5)),
    "transformer-lm": (transformer_lm, (1024, 16, 6), 141.1, (30.44,)),
}
_TRANSLATED = ("ppl_en_de", "bleu_en_de", "bleu_en_fr", "bleu_en_cs")
_HEADS = "Inferred: 8 heads (the count does not depend on it)."
_NOTES = {
    **dict.fromkeys(("d128", "d432", "d768"), _HEADS),
    "lm": "Inferred: 32,000 symbols, output layer not tied to the embedding.",
}
_UNKNOWN_SHAPE = (
    "The paper prints 224.0M and no shape. Twelve layers of 768 on either side are inferred; "
    "they come to 0.07M less."
)

for _name, (_build, _sizes, _millions, _scores) in MODELS.items():
    _size = _name.rpartition("-")[2]
    _figures = ("ppl_lm1b",) if _size == "lm" else _TRANSLATED[: len(_scores)]
    _printed: dict[str, float] = {} if _millions else {"params_in_paper": 224_000_000}
    published(
        _name,
        system="Evolved Transformer",
        paper=EVOLVED,
        params=round(1e6 * _millions) if _millions else None,
        reported=dict(zip(_figures, _scores, strict=True)) | _printed,
        note=_NOTES.get(_size, "") if _millions else _UNKNOWN_SHAPE,
    )(partial(_build, *_sizes))
